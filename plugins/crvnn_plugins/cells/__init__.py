"""Cells: how two children become their parent, one a module."""
