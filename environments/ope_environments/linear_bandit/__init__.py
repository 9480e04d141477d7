"""Synthetic bandits whose reward is linear, or logistic, in the context for each action."""
