"""Worlds drawn from priors, one for each number."""
