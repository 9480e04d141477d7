"""Statistics of errors and estimates: pure functions of arrays, None or NaN where undefined.

====================  ======================================================================
bootstrap             RMSE with its studentized bootstrap interval
coverage              shares with Wilson intervals; coverage and width of intervals
distribution          bias, spread, quantiles; the distribution of squared error
empirical_likelihood  a policy's value by empirical likelihood
guaranteed            a policy's value by bets or logarithmic smoothing, at least the level
paired                before against after on the same replicates; Holm's adjustment
ranks                 shared ranks; comparison over many environments
rearrangement         p-values from rearranged data
selection             choosing among target policies by their estimates
slopes                growth of errors along a swept parameter
tails                 detection of heavy-tailed rows
typical               signed-rank comparison of absolute errors
unit_bootstrap        any estimator, refitted on resampled units
unit_sums             sums over the rows of units, and sizes of units
unpaired              before against after on different data
weights               weights whose standard error is too small
====================  ======================================================================

An undefined statistic is NaN in an array and None as a scalar, never 0.
"""
