"""The rules ``ocv`` and ``ocv-terms``: off-policy cross-validation against an estimator."""

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
    refit: bool,
) -> tuple[FloatArray, int]:
    """Return the `validation_risk` of each candidate, (k,), and how many estimates were made anew.

    It is infinite for a candidate of infinite variance. The mean reward of the rows stands in for
    an estimate that fails on a part of the rows.

    Parameters
    ----------
    candidates : k estimators with their estimates.
    validator : an estimator with terms, whose estimate on the other rows is to be predicted.
    spread : of the candidates and, last, of the validator.
    view : the rows, of at least two units.
    seed : of the splits.
    device : where estimates are computed anew.
    refit : candidates are computed anew on the training rows and the validator on the others, as
        in algorithm 1 of the paper. If false, estimates with terms are means of the terms that
        they have on all rows: fitted models have then seen both parts.
    """
    reruns = 0

    def anew(one: Candidate, index: IntArray) -> float:
        nonlocal reruns
        reruns += 1
        target = index if view.shared_contexts else np.arange(len(target_units(view)))
        value = one.value_on(view.rows(index, target), device)
        return value if math.isfinite(value) else float(view.reward[index].mean())

    def estimate(k: int, index: IntArray) -> float:
        one = candidates[k]
        if refit or one.estimate.terms is None:
            return anew(one, index)
        return mean_of_terms(one, index, None)

    terms = validator.estimate.terms
    assert terms is not None  # noqa: S101  the caller has checked
    held_out = terms + (validator.estimate.value - terms.mean())
    validate = (lambda index: anew(validator, index)) if refit else held_out
    error = np.sqrt(spread.variance)
    rng = np.random.default_rng(seed)
    errors = error[:-1], float(error[-1])
    risk = validation_risk(estimate, validate, errors, view.unit, rng)
    return np.where(np.isfinite(error[:-1]), risk, np.inf), reruns
