"""Claims as data, the statistics of a line of evidence, and the rule to a verdict."""
