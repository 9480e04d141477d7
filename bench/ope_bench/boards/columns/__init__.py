"""Columns of boards: one registry, from which every format reads."""
