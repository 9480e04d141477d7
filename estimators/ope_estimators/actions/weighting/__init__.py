"""Importance weighting of actions, with known or estimated probabilities."""
