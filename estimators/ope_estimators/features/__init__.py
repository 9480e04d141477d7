"""Features of contexts, actions and embeddings, the inputs of models."""
