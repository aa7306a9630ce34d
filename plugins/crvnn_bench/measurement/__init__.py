"""How it is measured: time in turns, memory in fresh processes, operations under torch's profiler."""
