"""Makers of worlds: from a log with a policy to evaluate, data sets whose true value is known."""
