"""Encoders that are no recursion of the engine: fixed structures, other published encoders, plain sequences."""
