"""Two contexts, two actions, two logging policies."""
