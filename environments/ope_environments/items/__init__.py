"""Environments in which policies play items of their own, known by deterministic embeddings."""
