"""Policies that a user gives by the rows of a log."""
