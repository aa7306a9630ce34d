"""Logical inference: how two propositions are related (Bowman et al., 2015)."""
