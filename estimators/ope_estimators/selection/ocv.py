"""The rule ``ocv`` among estimators: off-policy cross-validation against one of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ope_bench import FloatArray, IntArray, View
from ope_estimators.selection.candidates import Candidate
from ope_estimators.selection.spread import Spread, mean_of_terms, target_units
from ope_estimators.tuning.cross_validation import validation_risk

__all__ = ["ocv_score"]


def ocv_score(
    candidates: Sequence[Candidate],
    validator: Candidate,
    spread: Spread,
    view: View,
    *,
    seed: int,
    device: str,
) -> tuple[FloatArray, int]:
    """Return the `validation_risk` of each candidate, (k,), and how many estimates were made anew.

    It is infinite for a candidate of infinite variance.
    On the training rows, an estimate with terms is the mean of their terms; another is computed
    anew, and the mean reward of those rows stands in where it then fails.

    Parameters
    ----------
    candidates : k estimators with their estimates.
    validator : an estimator with terms, whose mean on the other rows is to be predicted.
    spread : of the candidates and, last, of the validator.
    view : the rows, of at least two units.
    seed : of the splits.
    device : where estimates are computed anew.
    """
    reruns = 0

    def estimate(k: int, index: IntArray) -> float:
        nonlocal reruns
        one = candidates[k]
        if one.estimate.terms is not None:
            return mean_of_terms(one, index, None)
        reruns += 1
        target = index if view.shared_contexts else np.arange(len(target_units(view)))
        value = one.value_on(view.rows(index, target), device)
        return value if math.isfinite(value) else float(view.reward[index].mean())

    terms = validator.estimate.terms
    assert terms is not None  # noqa: S101  the caller has checked
    held_out = terms + (validator.estimate.value - terms.mean())
    error = np.sqrt(spread.variance)
    rng = np.random.default_rng(seed)
    errors = error[:-1], float(error[-1])
    risk = validation_risk(estimate, held_out, errors, view.unit, rng)
    return np.where(np.isfinite(error[:-1]), risk, np.inf), reruns
