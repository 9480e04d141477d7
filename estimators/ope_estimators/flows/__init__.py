"""Normalizing flows that bring the logged and the target sample together."""
