"""Encoders that read a sequence as it is: recurrent networks and Transformers."""
