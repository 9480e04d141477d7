"""An A/B test of two policies

Two randomized policies run side by side. Their probabilities of each logged action decide the test
with a fraction of the rows that the difference of means needs.
"""

import numpy as np

from ope_bench import ab

rng = np.random.default_rng(0)
new, old = np.array([0.4, 0.35, 0.25]), np.array([0.5, 0.3, 0.2])
click = np.array([0.10, 0.12, 0.15])


def log(policy, rows):
    """Return a log with both policies' probabilities of the actions in it."""
    action = rng.choice(3, rows, p=policy)
    return {
        "item": np.array(["a", "b", "c"])[action],
        "click": (rng.random(rows) < click[action]).astype(float),
        "p_new": new[action],
        "p_old": old[action],
    }


result = ab(
    log(new, 4000),
    log(old, 4000),
    probability_a="p_new",
    probability_b="p_old",
    reward="click",
    action="item",
)
print(result)
print(f"truth: {(new - old) @ click:.4f}")
