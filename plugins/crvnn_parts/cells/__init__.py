"""Cells, one per module: functions from two children to their parent."""
