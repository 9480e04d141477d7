"""Figures from arrays of errors: pure, seeded by content, silent about what they cannot know.

==============  ==================================================================
bootstrap       RMSE with its interval; which rows are heavy-tailed
coverage        shares with Wilson intervals; coverage and width of intervals
distribution    bias, spread, quantiles; the distribution of squared error
paired          before against after on the same replicates; Holm's adjustment
ranks           shared ranks; many environments at once
rearrangement   p-values from rearranged data
selection       choosing among target policies by their estimates
unpaired        before against after on different data
==============  ==================================================================

A figure that does not exist is NaN in an array and None on its own, never 0.
"""
