"""Weights of embeddings by regression of the weights of actions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ope_bench import FloatArray, View
from ope_estimators.features.actions import design, encoded
from ope_estimators.learning.folds import logged_folds
from ope_estimators.learning.learners import fitted

__all__ = ["FOLDS", "regressed_weights"]

FOLDS = 5


def regressed_weights(
    view: View,
    weight: FloatArray,
    used: Sequence[int],
    make: Callable[[int], Any],
    rng: np.random.Generator,
) -> FloatArray:
    """Return E_0[w | x, g] of each logged row, by models that have not seen its fold: (n,).

    No weight is negative, so predictions below 0 become 0.

    Parameters
    ----------
    view : the logged rows.
    weight : (n,), w of the logged actions.
    used : columns of the embedding.
    make : builds the unfitted regressor from a seed.
    rng : generator of the folds and the seeds.
    """
    columns = tuple(view.schema.embedding[index] for index in used)
    table = design(
        encoded(view.schema.context, view.context),
        encoded(columns, view.embedding[:, list(used)]),
    )
    n_folds = min(FOLDS, len(np.unique(view.fold_unit)))
    fold = logged_folds(view.fold_unit, n_folds, rng)
    out: FloatArray = np.empty(view.n)
    for k in range(n_folds):
        held = fold == k
        train = held if n_folds == 1 else ~held
        unit = view.fold_unit[train] if view.has_units else None
        model = fitted(make(int(rng.integers(2**31))), table[train], weight[train], unit)
        out[held] = np.asarray(model.predict(table[held]), dtype=np.float64).reshape(-1)
    return np.maximum(out, 0.0)
