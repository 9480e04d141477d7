"""Estimates and advice as one HTML file that needs no network."""
