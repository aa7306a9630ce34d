"""Retrievers: one relaxation of "the closest existing neighbour" a file."""
