"""Plugins of an imaginary third party."""
