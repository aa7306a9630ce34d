"""The contracts of what an encoder may declare that it can do."""
