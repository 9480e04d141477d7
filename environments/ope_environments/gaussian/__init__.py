"""Environments with continuous actions, where ratios and values have closed forms."""
