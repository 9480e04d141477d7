"""Processes that workers and their trials start: measured, and ended with them."""
