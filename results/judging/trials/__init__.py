"""Committed trials, boards and the settings of the leaderboard, as they are read."""
