"""Check a log: what is in it, and what is wrong with it."""
