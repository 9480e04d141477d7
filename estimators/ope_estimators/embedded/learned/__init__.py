"""Embedded estimators that learn from samples instead of knowing p(g|a)."""
