"""Along one parameter

How does the error change with the number of actions? Brackets make a grid; estimators see the same
data sets.
"""

from ope_bench import evaluate

results = evaluate(
    ["ipw", "ipws", "eipws", "logging-average"],
    "saito-toy[n_actions=[5,20,100]]",
    replicates=20,
)
print(results)
results.plot().save("figure.svg")
