"""A user's own log of decisions: read, check, and estimate a new policy's value from it."""
