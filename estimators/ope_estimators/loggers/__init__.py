"""Estimators for logs of several logging policies."""
