"""Ranked lists: policies over lists, click models, and their exact values."""
