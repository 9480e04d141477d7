"""Estimators of contexts and actions, without embeddings."""
