"""Run directories: reading, comparing and testing for significance. Nothing here imports torch."""
