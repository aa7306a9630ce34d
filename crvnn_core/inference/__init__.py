"""Models: building, loading, prediction, inspection and part exchange."""
