"""Retrievers, one per module: relaxations of "the closest existing neighbour" (Eqs. 5 and 6)."""
