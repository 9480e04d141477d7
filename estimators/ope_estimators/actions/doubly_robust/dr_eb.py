"""The doubly robust estimator shrunk toward its model by what the model found."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal, Self

import numpy as np
from annotated_types import Ge

from ope_bench import (
    ESTIMATE_WARNING,
    STANDARD_ERROR_WITHHELD,
    Access,
    Diagnostic,
    Estimate,
    FloatArray,
    IntArray,
    LinearEstimator,
    LinearScore,
    UnavailableError,
    View,
    standard_error,
    weighted_terms,
)
from ope_estimators.actions.doubly_robust.tmle import TMLE
from ope_estimators.nuisance.propensity import EstimatedPropensity
from ope_estimators.nuisance.reward_based import ActionRewardBased

__all__ = ["DREB", "ONE_UNIT", "Correction", "ShrunkScore", "correction", "share_of"]

ONE_UNIT = "fewer than two units have a weight: nothing checks the reward model"


@dataclass(frozen=True, eq=False, kw_only=True)
class ShrunkScore(LinearScore):
    """Parts of a value of which a share of the weighted mean counts, as `DREB` chooses it.

    Parameters
    ----------
    contrast : (n,), what the model expects of the policy less q̂ at the logged action.
    """

    contrast: FloatArray


class DREB(EstimatedPropensity, ActionRewardBased, LinearEstimator):
    """The direct method plus a share of its correction: empirical Bayes.

        V̂ = dm + a b,   dm = (1/n) sum_i sum_a π1(a|x_i) q̂(x_i, a),
        b = sum_i w_i (r_i - q̂(x_i, a_i)) / sum_i w_i,   w_i = π1(a_i|x_i) / π0(a_i|x_i),
        a = τ² / (τ² + s²),   τ² = max(t², b² - s²),
        t² = (1/n) sum_i (sum_a π1(a|x_i) q̂(x_i, a) - q̂(x_i, a_i))²

    s² is the variance of b: that of the delta method, and at least that of residuals which spread
    as all logged ones do, var(r - q̂) sum_i w_i² / (sum_i w_i)². The model may be wrong by as much
    as it found: t² is the prior variance of its bias, and b² - s² takes its place where the
    weighted residuals say more. a = 1 is `SNDR`, a = 0 the direct method. q̂ at row i comes from
    a model that was fitted without the row's fold. The standard error is that of a = 1, so that it
    knows what shrinkage hides; with units, residuals of one unit count together.

    The diagnostic ``reward_r2`` is the share of the rewards' variance that q̂ explains out of fold.

    Where fewer than two units have weight nothing checks the model: a = 0, with a warning and
    without a standard error.

    Assumptions: known propensities; π0(a|x) > 0 wherever π1(a|x) > 0.
    Fails when: support is missing: residuals of unsupported actions are taken to be as those of
    the others. q̂ finds nothing (t² near 0) and is wrong by less than the noise of b: most of
    that bias stays.

    Parameters
    ----------
    regressor : a regressor's name; ``given`` takes the problem's predictions.
    regressor_params : its parameters.
    action_features : ``one-hot``, ``ordinal``, ``embedding`` or ``separate``; as for `DM`.
    cross_fit : number of folds, by unit; 1 fits in-sample, which shrinks residuals and standard
        error.
    toward : the estimator of a = 1: ``sndr``, or ``tmle``, which stays in the range of the
        rewards: V̂ = dm + a (tmle - dm).
    propensity : ``given``, or ``estimated`` by a classifier of actions, out of fold, calibrated.
    propensity_classifier : its name.
    propensity_folds : its folds, by unit; 1 fits in-sample.

    References
    ----------
    Parametric empirical Bayes inference: theory and applications (Morris, 1983), for the share.

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> record = evaluate(DREB(regressor="ridge"), "saito-toy", replicates=1)[0]
    >>> 0 < record.diagnostics["share"] <= 1
    True
    """

    cross_fit: Annotated[int, Ge(1)] = 5
    toward: Literal["sndr", "tmle"] = "sndr"

    @property
    def access(self) -> Access:
        """Weights, and what the model needs."""
        return super().access if self._estimates else Access.PROPENSITY | super().access

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> Self:
        """Fit the reward model; other estimators may share the fit."""
        super().fit(view, rng=rng, device=device)
        self.end_ = None
        if self.toward == "tmle":
            params = self.get_params(deep=False)
            del params["toward"]
            self.end_ = TMLE(**params).fit(view, rng=rng, device=device)
        return self

    def _parts(self, view: View) -> ShrunkScore:
        weight = view.target_policy.probability(view.context, view.action) / self._propensity(view)
        expected = self._expected_reward(view)
        logged = self.reward_.logged(view.context, view.action)
        return ShrunkScore(
            weight=weight,
            outcome=view.reward - logged,
            baseline=expected,
            normalized=True,
            contrast=expected - logged,
        )

    def score(self, view: View) -> ShrunkScore:
        """Return the model's averages, and the residuals of which a share counts."""
        if self.end_ is not None:
            msg = "toward=tmle needs all rows at once; take toward=sndr, or sample rows"
            raise UnavailableError(msg)
        return self._parts(view)

    def estimate(self, view: View) -> Estimate:
        """Return the shrunk estimate, and the standard error of the one that is not shrunk."""
        count = np.ones(view.n) if view.row_weight is None else view.row_weight
        parts = self._parts(view)
        weight, residual, expected = parts.weight, parts.outcome, parts.baseline
        assert weight is not None and residual is not None and expected is not None  # noqa: S101, PT018
        found = correction(weight, residual, parts.contrast, count, view.unit)
        facts: dict[str, Diagnostic] = {"share": found.share, "mean_weight": found.mean_weight}
        facts |= {"correction": found.value, "residual_error": math.sqrt(found.variance)}
        if not math.isfinite(found.variance):
            del facts["residual_error"]
            facts |= {ESTIMATE_WARNING: ONE_UNIT, STANDARD_ERROR_WITHHELD: ONE_UNIT}
        facts |= self._signal(view, residual)
        full = expected
        if found.mean_weight > 0:
            full = expected + found.value
            full = full + weight / found.mean_weight * (residual - found.value)
        if self.end_ is not None and found.share > 0:
            end = self.end_.estimate(view)
            assert end.terms is not None  # noqa: S101  `TMLE` has them
            # Terms of weighted rows are multiplied by the weights already.
            base = weighted_terms(expected, view.row_weight)
            terms = base + found.share * (end.terms - base)
        else:
            terms = weighted_terms(expected + found.share * (full - expected), view.row_weight)
        error = standard_error(weighted_terms(full, view.row_weight), view.unit)
        if error is not None:
            error = max(error, math.sqrt(found.variance))
        known = math.isfinite(found.variance)
        return Estimate(
            float(terms.mean()),
            error if known else None,
            weight,
            facts,
            weight_space="action",
            terms=terms,
        )


@dataclass(frozen=True)
class Correction:
    """The correction of a reward model by weighted residuals, and how much of it counts.

    Parameters
    ----------
    value : b.
    variance : s²; infinite where fewer than two units have weight.
    share : a.
    mean_weight : mean of the weights.
    """

    value: float
    variance: float
    share: float
    mean_weight: float


def correction(
    weight: FloatArray,
    residual: FloatArray,
    contrast: FloatArray,
    count: FloatArray,
    unit: IntArray,
) -> Correction:
    """Return the correction by residuals, its variance and its share.

    Parameters
    ----------
    weight : (n,), w.
    residual : (n,), r - q̂ at the logged actions.
    contrast : (n,), what the model expects of the policy less q̂ at the logged action.
    count : (n,), for how many rows each stands: one of weight 2 is that row twice.
    unit : (n,)
    """
    total, rows = float(count @ weight), float(count.sum())
    by_unit = np.unique(unit, return_inverse=True)[1].reshape(-1)
    alone = bool((unit[1:] > unit[:-1]).all())
    if not alone and (count != 1).any():
        # Units of one row each in any order; with weights of 1 both sums below are the same.
        alone = int(by_unit.max()) + 1 == len(unit)
    units = int(np.count_nonzero(np.bincount(by_unit, count * weight)))
    if alone:
        # A row of weight 2 is two units where every row is one.
        units = max(units, int(count[weight > 0].sum()))
    if total <= 0:
        return Correction(0.0, math.inf, 0.0, 0.0)
    value = float(count @ (weight * residual)) / total
    if units < 2:
        return Correction(value, math.inf, 0.0, total / rows)
    error = weight * (residual - value)
    spread = residual - float(count @ residual) / rows
    squares = float(count @ np.square(spread))
    if alone:
        variance, design = float(count @ np.square(error)), 1.0
    else:
        variance = float(np.square(np.bincount(by_unit, count * error)).sum())
        together = float(np.square(np.bincount(by_unit, count * spread)).sum())
        design = max(1.0, together / squares) if squares > 0 else 1.0
    least = design * float(count @ np.square(weight)) * squares / rows
    variance = max(variance, least) / total**2
    share = share_of(value, variance, float(count @ np.square(contrast)) / rows)
    return Correction(value, variance, share, total / rows)


def share_of(value: float, variance: float, contrast: float) -> float:
    """Return the share a of a correction b with variance s², where t² is ``contrast``."""
    found = max(contrast, value**2 - variance)
    return found / (found + variance) if found + variance > 0 else 1.0
