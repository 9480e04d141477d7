"""Worlds drawn from priors, and what is wrong with real logs."""
