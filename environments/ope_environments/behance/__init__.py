"""Behance appreciates as a semi-synthetic environment: files, preparation, surrogate."""
