"""What is wrong with real logs, as dials on any environment."""
