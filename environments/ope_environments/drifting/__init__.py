"""Bandits whose rewards change over time, valued at a time after the log."""
