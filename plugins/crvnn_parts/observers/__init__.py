"""Observers, one per module: receivers of training metrics and messages."""
