"""Trees as text and pictures, one form a module."""
