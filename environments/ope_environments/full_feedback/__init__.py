"""Tables that score every action in every row, as bandits."""
