"""Estimators of a value at a later time, from logs whose rewards drift."""
