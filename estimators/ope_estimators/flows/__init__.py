"""Normalizing flows that map both samples to overlapping features."""
