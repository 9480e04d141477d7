"""Likeness of a made world: whether a classifier tells its rows from those of the log."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from ope_bench.contracts.access import Access
from ope_bench.contracts.arrays import FloatArray, IntArray
from ope_bench.contracts.data import Problem
from ope_bench.contracts.estimate import Diagnostic, Estimate
from ope_bench.contracts.estimator import Estimator
from ope_bench.contracts.parameters.declaration import params
from ope_bench.contracts.view import View
from ope_bench.errors import UnavailableError
from ope_bench.logs.problem import problem_of
from ope_bench.logs.storage import open_log

__all__ = ["UNITS", "WEIGHT_DISTANCE", "Likeness"]

UNITS = "units"
"""Name of the diagnostic with the world's number of units."""

WEIGHT_DISTANCE = "weight_distance"
"""Name of the diagnostic with the distance between the weights' distributions."""

MOST_ROWS = 4000
FOLDS = 3


@params
class Likeness(Estimator):
    """The area under the curve of a classifier between a log's rows and a made world's.

    One half where the rows cannot be told apart, one where each can. The classifier, boosted
    trees on context, action, what describes the action, and reward, is judged on rows that it was
    not trained on; rows of equal context and action stay together, since some worlds copy them.
    The diagnostic `WEIGHT_DISTANCE` is the largest difference between the distribution functions
    of the importance weights, and `UNITS` is the world's number of units.

    Parameters
    ----------
    folder : of the stored log.
    policy : name of the policy to evaluate.
    """

    access = Access.PROPENSITY | Access.TARGET_POLICY
    optional_access = access
    requires: ClassVar[tuple[str, ...]] = ("sklearn.ensemble",)

    folder: str = ""
    policy: str = ""

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> Self:
        """Compare the view with the log."""
        log = open_log(self.folder)
        real = problem_of(log, self.policy, np.random.default_rng(0))
        first, second = _drawn(len(real.reward), rng), _drawn(view.n, rng)
        described = real.action_embedding
        rows = np.concatenate(
            [_columns(real, first, described), _columns(view, second, described)]
        )
        made = np.repeat([0, 1], [len(first), len(second)])
        self.area_ = _area(rows, made, rng)
        self.distance_ = _distance(_weights(real), _weights(view))
        return self

    def estimate(self, view: View) -> Estimate:
        """The area under the curve."""
        units = len(np.unique(view.unit))
        facts: dict[str, Diagnostic] = {WEIGHT_DISTANCE: self.distance_, UNITS: units}
        return Estimate(self.area_, diagnostics=facts)


def _drawn(n: int, rng: np.random.Generator) -> IntArray:
    return np.arange(n) if n <= MOST_ROWS else rng.choice(n, MOST_ROWS, replace=False)


def _columns(data: Problem | View, rows: IntArray, described: FloatArray | None) -> FloatArray:
    action = np.asarray(data.action[rows])
    parts = [np.asarray(data.context)[rows], action[:, None], data.reward[rows, None]]
    if described is not None:
        parts.insert(2, described[action])
    return np.hstack(parts)


def _area(rows: FloatArray, made: IntArray, rng: np.random.Generator) -> float:
    """Area under the curve of held-out predictions."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score

    group = np.unique(rows[:, :-1], axis=0, return_inverse=True)[1].reshape(-1)
    fold = rng.integers(FOLDS, size=int(group.max()) + 1)[group]
    score = np.full(len(rows), 0.5)
    for held_out in range(FOLDS):
        at = fold == held_out
        # With few contexts and actions a fold may have no rows, or all of them.
        if not at.any() or len(np.unique(made[~at])) < 2:
            continue
        model = HistGradientBoostingClassifier(max_iter=50, early_stopping=False, random_state=0)
        score[at] = model.fit(rows[~at], made[~at]).predict_proba(rows[at])[:, 1]
    return float(roc_auc_score(made, score))


def _weights(data: Problem | View) -> FloatArray | None:
    try:
        policy, propensity = data.target_policy, data.propensity
    except UnavailableError:
        return None
    if policy is None or propensity is None:
        return None
    return np.asarray(policy.probability(data.context, data.action) / propensity)


def _distance(left: FloatArray | None, right: FloatArray | None) -> float | None:
    from scipy.stats import ks_2samp

    if left is None or right is None:
        return None
    found: Any = ks_2samp(left, right, method="asymp")
    return float(found.statistic)
