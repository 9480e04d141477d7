"""What is wrong with real logs, as faults of any environment."""
