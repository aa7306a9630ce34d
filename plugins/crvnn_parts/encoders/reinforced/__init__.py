"""Encoders that sample a tree for each sequence and learn by reinforcement which to sample."""
