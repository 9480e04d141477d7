"""Randomized trials as environments: real rewards, and a truth that randomization gives."""
