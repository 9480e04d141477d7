"""Choosing among estimators by the logs: `Select` and its rules, one file each."""
