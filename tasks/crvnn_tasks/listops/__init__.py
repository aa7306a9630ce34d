"""ListOps: nested list operations on digits (Nangia and Bowman, 2018)."""
