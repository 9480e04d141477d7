"""Estimators from sums over batches of rows, for logs that are larger than memory."""
