"""The commands of ``crvnn bench``. They import torch when they run."""
