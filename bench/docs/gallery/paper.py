"""A table and a figure for a paper

LaTeX with intervals, and a figure. Bold rows do not differ significantly from the best.
"""

from ope_bench import evaluate

results = evaluate(["ipw", "ipws", "dr"], "linear-bandit[n_samples=[500,2000]]", replicates=20)
print(results.to_latex())
results.plot().save("figure.svg")
