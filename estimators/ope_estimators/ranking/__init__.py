"""Estimators for ranked lists, whose rows are the items of lists."""
