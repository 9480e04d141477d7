"""Estimators of continuous actions that smooth over actions with a kernel."""
