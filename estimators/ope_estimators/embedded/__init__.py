"""Estimators that weigh or model embeddings instead of actions."""
