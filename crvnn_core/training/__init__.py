"""Training: the loop, its steps, data, evaluation and checkpoints."""
