"""Ratios of target to logging densities, learnt from samples alone."""
