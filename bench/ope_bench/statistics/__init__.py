"""Statistics of errors and estimates: pure functions of arrays, None or NaN where undefined.

==================  ========================================================================
error_distribution  heavy tails, bootstrap intervals of the RMSE, summaries of errors
coverage            shares with Wilson's intervals; coverage and width of intervals
paired_tests        before against after on the same replicates; Holm's adjustment
ranks               ranks with ties and over environments; policy selection; slopes of errors
value_intervals     a policy's value by empirical likelihood, bets or logarithmic smoothing
weight_checks       resamples and sums by unit; weights whose standard error is too small
==================  ========================================================================

An undefined statistic is NaN in an array and None as a scalar, never 0.
"""
