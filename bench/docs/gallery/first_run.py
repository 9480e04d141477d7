"""A first board

Which estimator errs least on a small simulation? Twenty data sets, whose true value is known.
"""

from ope_bench import evaluate

results = evaluate(["ipw", "ipws", "dr", "logging-average"], "saito-toy", replicates=20)
print(results)

# Failures would be rows here, with what to do.
print(results.failures)
