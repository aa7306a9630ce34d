"""What is measured: one module for each command that runs a benchmark."""
