"""Doubly robust estimators: a reward model and its weighted residuals."""
