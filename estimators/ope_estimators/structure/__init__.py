"""Estimators that pool actions: clusters, embeddings learned or given, rewards, convolutions."""
