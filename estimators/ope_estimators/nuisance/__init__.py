"""Nuisance models: what estimators fit on the way to a value."""
