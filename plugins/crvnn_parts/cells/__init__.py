"""Cells: functions from two children to their parent."""
