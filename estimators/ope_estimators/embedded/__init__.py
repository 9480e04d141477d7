"""Estimators that weight or model embeddings instead of actions."""
