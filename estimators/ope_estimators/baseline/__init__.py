"""Estimators that know nothing of embeddings."""
