"""Decisions: relaxations that turn scores into composition probabilities."""
