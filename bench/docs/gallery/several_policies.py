"""Several policies on one log

Which of two new policies would earn more, and is the difference more than chance? Policies are
arrays with a row for each decision and a column for each action.
"""

import numpy as np

from ope_bench import Log, advise, estimate

rng = np.random.default_rng(2)
n, actions = 4000, ["a", "b", "c"]
age = rng.uniform(-1, 1, n)
best = np.stack([0.3 + 0.2 * age, np.full(n, 0.3), 0.3 - 0.2 * age], axis=1)
action = rng.integers(0, 3, n)
frame = {
    "age": age,
    "action": np.array(actions)[action],
    "reward": rng.random(n) < best[np.arange(n), action],
    "p": np.full(n, 1 / 3),
}


def leaning(strength):
    """Return probabilities that lean to the action that suits the age."""
    score = np.exp(strength * best)
    return score / score.sum(axis=1, keepdims=True)


log = Log.from_frame(
    frame,
    context=["age"],
    action="action",
    reward="reward",
    propensity="p",
    target={"timid": leaning(2.0), "bold": leaning(20.0)},
    actions=actions,  # in the order of the arrays' columns
)
result = estimate(log, ["dr", "ipws"])
print(result)
print(advise(log))  # which one wins, by intervals that hold for all at once
print("true values:", *[f"{(leaning(s) * best).sum(axis=1).mean():.3f}" for s in (2.0, 20.0)])
