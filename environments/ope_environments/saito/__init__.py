"""Environments with stochastic categorical embeddings, after Saito and Joachims (2022)."""
