"""Logs in the layout of the Open Bandit Dataset."""
