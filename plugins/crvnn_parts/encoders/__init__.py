"""Encoders other than CRvNN: fixed tree structures, Ordered Memory, and sequence models."""
