"""Advice on a user's own log: whether it can answer, by which estimator, and how wrong."""
