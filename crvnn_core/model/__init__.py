"""A complete model: vocabulary, batches, embedding, encoder, head and loss."""
