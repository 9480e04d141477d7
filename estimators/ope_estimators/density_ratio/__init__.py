"""Ratios of target to logging densities, learned from samples alone."""
