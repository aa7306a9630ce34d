"""The data of the tasks: ``crvnn data make``, ``get`` and ``check``."""
