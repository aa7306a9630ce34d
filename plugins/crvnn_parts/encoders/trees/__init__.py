"""Encoders that compose along trees: given ones, or trees that they search for."""
