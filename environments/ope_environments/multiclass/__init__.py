"""Classification data sets as bandits."""
