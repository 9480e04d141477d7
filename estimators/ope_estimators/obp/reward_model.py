"""The Open Bandit Pipeline's reward model, for those of its estimators that need one."""

from __future__ import annotations

import numpy as np

from ope_bench.arrays import FloatArray
from ope_bench.errors import UnavailableError
from ope_bench.view import View

__all__ = ["fitted_rewards"]


def fitted_rewards(view: View, *, trees: int, folds: int, rng: np.random.Generator) -> FloatArray:
    """Out-of-fold q̂ at all actions: (n, n_actions, 1).

    A random forest on contexts and one-hot actions, a classifier where rewards are 0 and 1.
    """
    from obp.ope import RegressionModel
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    if view.n_actions is None:
        msg = "the Open Bandit Pipeline's estimator is for finitely many actions"
        raise UnavailableError(msg)
    binary = bool(np.isin(view.reward, (0.0, 1.0)).all())
    forest = RandomForestClassifier if binary else RandomForestRegressor
    seed, split = (int(word) for word in rng.integers(2**31, size=2))
    model = RegressionModel(
        n_actions=view.n_actions,
        base_model=forest(n_estimators=trees, max_samples=0.8, random_state=seed),
    )
    fitted: FloatArray = model.fit_predict(
        context=view.context,
        action=view.action,
        reward=view.reward.astype(np.int64) if binary else view.reward,
        n_folds=folds,
        random_state=split,
    )
    return fitted
