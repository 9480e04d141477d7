"""Logged decisions from a user's own table as a semi-synthetic environment."""
