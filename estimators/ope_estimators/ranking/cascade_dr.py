"""Doubly robust estimation of lists that are read from the top."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Self

import numpy as np
from annotated_types import Ge

from ope_bench import (
    Access,
    Estimate,
    FloatArray,
    IntArray,
    ListPolicy,
    UnavailableError,
    View,
    standard_error,
)
from ope_estimators.actions.doubly_robust.dr import DR
from ope_estimators.features.pairs import PairFeatures
from ope_estimators.learning import learners
from ope_estimators.learning.folds import logged_folds
from ope_estimators.learning.learners import MIXED, MIXED_MODELS, fitted, regressor
from ope_estimators.nuisance.pooled import pooled_params, pooled_parts
from ope_estimators.nuisance.reward_based import RewardBased
from ope_estimators.ranking.list_weighted import slots_of

__all__ = ["CascadeDR"]


class CascadeDR(RewardBased):
    """`RIPS` with a model of what a list still earns from each slot on.

        V̂ = (1/n) sum_lists sum_k [ w_(1:k-1) sum_a π1(a|x, a_1..a_(k-1)) Q̂_k(x, a)
                                    + w_(1:k) (r_k - Q̂_k(x, a_k)) ]

    Q̂_k is a regression of r_k plus the next slot's sum, made from the last slot to the first
    without the rows' fold, of user, slot and item. Unbiased for any Q̂ where `RIPS` is. Lists of
    one item give `DR`.

    Assumptions: those of `RIPS`.
    Fails when: those fail, or Q̂ is bad and weights are large. A model of the item alone misses
    what earlier items do to later slots, which the weights then correct.

    Parameters
    ----------
    regressor : a regressor's name, as for `DM`.
    regressor_params : its parameters.
    action_features : ``one-hot``, ``ordinal`` or ``embedding``; for others than ``mixed``.
    cross_fit : number of folds, by list; 1 fits in-sample.

    References
    ----------
    Doubly robust off-policy evaluation for ranking policies under the cascade behavior model
    (Kiyohara et al., 2022), equation 8.

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> record = evaluate(CascadeDR("ridge"), "ranking[clicks=cascade]", replicates=1)[0]
    >>> abs(record.estimate - record.truth_expected) < 4 * record.standard_error
    True
    """

    action_masks = True
    access = Access.PROPENSITY | Access.TARGET_POLICY | Access.PREFIX_PROPENSITY

    regressor: learners.RegressorName = MIXED
    action_features: Any = "one-hot"
    cross_fit: Annotated[int, Ge(1)] = 5

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> Self:
        """Fit the models of all slots and folds."""
        self.single_ = None
        self.weight_ = view.prefix_propensity[:, 1] / view.prefix_propensity[:, 0]
        slot = slots_of(view)
        if not slot.any():
            single = DR(
                self.regressor, self.regressor_params, self.action_features, self.cross_fit
            )
            self.single_ = single.fit(view, rng=rng, device=device)
            return self
        if not isinstance(view.target_policy, ListPolicy):
            msg = "cascade-dr needs a target policy over lists: probabilities given earlier items"
            raise UnavailableError(msg)
        n_folds = 1 if self.cross_fit == 1 else min(self.cross_fit, len(np.unique(view.fold_unit)))
        fold = logged_folds(view.fold_unit, n_folds, rng)
        chance = self._conditional(view, view.target_policy, slot)
        self.logged_, self.expected_ = np.zeros(view.n), np.zeros(view.n)
        for k in range(n_folds):
            held = np.full(view.n, True) if n_folds == 1 else fold == k
            train = np.full(view.n, True) if n_folds == 1 else ~held
            logged, expected = self._backward(view, slot, chance, train, rng, device)
            self.logged_[held], self.expected_[held] = logged[held], expected[held]
        return self

    def estimate(self, view: View) -> Estimate:
        """Return the mean of the terms, with the standard error by lists."""
        if self.single_ is not None:
            return self.single_.estimate(view)
        row = self._index(view, slots_of(view))
        before = np.where(slots_of(view) > 0, self.weight_[row[:, 0]], 1.0)
        terms = before * self.expected_ + self.weight_ * (view.reward - self.logged_)
        error = standard_error(terms, view.unit)
        facts = {"mean_weight": float(self.weight_.mean())}
        value = float(terms.mean())
        return Estimate(value, error, self.weight_, facts, weight_space="action", terms=terms)

    def _backward(
        self,
        view: View,
        slot: IntArray,
        chance: FloatArray,
        train: np.ndarray[Any, np.dtype[np.bool_]],
        rng: np.random.Generator,
        device: str,
    ) -> tuple[FloatArray, FloatArray]:
        """Fit Q̂ from the last slot on; return it and its sum over actions: (n,), (n,)."""
        params = dict(self.regressor_params or {})
        features: PairFeatures
        make: Any
        if self.regressor in MIXED_MODELS:
            features, make = pooled_parts(view, pooled_params(self.regressor, params))
        else:
            features = PairFeatures(view, "action", self.action_features)
            make = partial(regressor, self.regressor, device=device, params=params)
        n_actions = chance.shape[1]
        logged, expected = np.zeros(view.n), np.zeros(view.n)
        following = self._index(view, slot)[:, 1]
        outcome = view.reward.copy()
        for k in range(int(slot.max()), -1, -1):
            rows = np.flatnonzero(slot == k)
            outcome[rows] += np.where(following[rows] >= 0, expected[following[rows]], 0.0)
            some = rows[train[rows]]
            table = features(view.context[some], view.action[some])
            model = fitted(make(seed=int(rng.integers(2**31))), table, outcome[some], None)
            logged[rows] = model.predict(features(view.context[rows], view.action[rows]))
            every = np.tile(np.arange(n_actions), len(rows))
            q = model.predict(features(np.repeat(view.context[rows], n_actions, axis=0), every))
            expected[rows] = (chance[rows] * q.reshape(len(rows), n_actions)).sum(axis=1)
        return logged, expected

    @staticmethod
    def _index(view: View, slot: IntArray) -> IntArray:
        """Return the rows before and after each row in its list, -1 for none: (n, 2)."""
        order = np.lexsort((slot, view.unit))
        same = np.diff(view.unit[order]) == 0
        index = np.full((view.n, 2), -1)
        index[order[1:][same], 0], index[order[:-1][same], 1] = order[:-1][same], order[1:][same]
        return index

    def _conditional(self, view: View, policy: ListPolicy, slot: IntArray) -> FloatArray:
        """Return π1(a|x, a_1..a_(k-1)) of each row: (n, n_actions)."""
        _, row = np.unique(view.unit, return_inverse=True)
        lists = np.full((int(row.max()) + 1, policy.length), 0)
        lists[row, slot] = view.action
        return policy.conditional(view.context, lists[row])
