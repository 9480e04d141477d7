"""Ranked lists in the layout of the Music Off-Policy Evaluation Benchmark."""
