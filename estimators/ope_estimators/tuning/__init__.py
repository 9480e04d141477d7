"""Rules that choose a hyper-parameter from the logs: estimated error, intervals, held-out rows."""
