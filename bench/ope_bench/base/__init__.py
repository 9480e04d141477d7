"""Foundations of all other packages: errors, files, units, console. They know nothing of OPE."""
