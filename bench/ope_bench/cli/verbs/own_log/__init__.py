"""The commands for a user's own log."""
