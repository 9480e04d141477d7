"""Film ratings as a bandit with many actions."""
