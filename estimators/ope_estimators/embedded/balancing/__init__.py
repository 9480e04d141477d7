"""Weights from samples alone, fitted to balance the logs with the target sample."""
