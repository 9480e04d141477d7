"""How embedding and context become one row of features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from ope_bench.arrays import FloatArray
from ope_bench.data import Column
from ope_bench.view import View

__all__ = ["Composition", "Features", "compose", "encode"]

Composition = Literal["concat", "tensor", "tensor-bias"]
"""``concat`` [G, C]; ``tensor`` G⊗C as printed; ``tensor-bias`` G⊗[1, C]."""


@dataclass(frozen=True, eq=False)
class Features:
    """Features of both samples, and which columns take only finitely many values.

    Parameters
    ----------
    logged : (n, d)
    target : (m, d)
    discrete : (d,), whether a column (or the space that the columns span) holds atoms.
    """

    logged: FloatArray
    target: FloatArray
    discrete: npt.NDArray[np.bool_]

    @property
    def pooled(self) -> FloatArray:
        """Logged rows, then target rows: (n + m, d)."""
        return np.concatenate([self.logged, self.target])


def encode(rows: FloatArray, columns: tuple[Column, ...]) -> FloatArray:
    """Categorical columns as one indicator a category but the first, the others as they are.

    With the first category left out, no column is a sum of others, and a binary context stays
    one column.

    >>> encode(np.array([[0.5, 2.0]]), (Column(), Column("categorical", (0.0, 1.0, 2.0))))
    array([[0.5, 0. , 1. ]])
    """
    parts = [np.empty((len(rows), 0))]
    for values, column in zip(rows.T, columns, strict=True):
        if column.kind == "categorical":
            # A single category still keeps its (constant) column.
            shown = column.categories[1:] or column.categories
            parts.append((values[:, None] == np.asarray(shown)).astype(np.float64))
        else:
            parts.append(values[:, None])
    return np.concatenate(parts, axis=1)


def compose(view: View, composition: Composition) -> Features:
    """Both samples' features under one composition.

    The ratio of densities survives only an injective composition. ``tensor`` is not one: it takes
    (G, C) and (sG, C/s) for the same, and gives the zero vector wherever C = 0, so that a binary
    context is lost; categories enter it as the numbers that code them. ``tensor-bias`` keeps the
    embedding itself beside the products. Both span as many columns as products but no more
    dimensions than G and C have together, hence no density of their own.

    Reference: Off-Policy Evaluation for Embedded Spaces (Lee, Arbour and Theocharous, 2022),
    section 4.3.
    """
    schema = view.schema
    samples = ((view.embedding, view.context), (view.target_embedding, view.target_context))
    if composition == "tensor":
        logged, target = (_outer(g, c) for g, c in samples)
        return Features(logged, target, np.ones(logged.shape[1], dtype=bool))
    coded = [(encode(g, schema.embedding), encode(c, schema.context)) for g, c in samples]
    if composition == "tensor-bias":
        logged, target = (_outer(g, np.insert(c, 0, 1.0, axis=1)) for g, c in coded)
        return Features(logged, target, np.ones(logged.shape[1], dtype=bool))
    logged, target = (np.concatenate(pair, axis=1) for pair in coded)
    discrete = _declared(schema.embedding + schema.context) | _few_values(logged, target)
    return Features(logged, target, discrete)


def _outer(g: FloatArray, c: FloatArray) -> FloatArray:
    """Row-wise tensor product: (n, d_g * d_c)."""
    return (g[:, :, None] * c[:, None, :]).reshape(len(g), -1)


def _declared(columns: tuple[Column, ...]) -> npt.NDArray[np.bool_]:
    flags: list[bool] = []
    for column in columns:
        wide = column.kind == "categorical"
        width = max(1, len(column.categories) - 1) if wide else 1
        flags += [column.kind != "continuous"] * width
    return np.array(flags, dtype=bool)


def _few_values(logged: FloatArray, target: FloatArray) -> npt.NDArray[np.bool_]:
    """Columns that repeat their values, whatever the schema says of them: (d,).

    Contexts that both samples share come twice and do not count as repeating.
    """
    pooled = np.sort(np.concatenate([logged, target]), axis=0)
    different = 1 + (np.diff(pooled, axis=0) > 0).sum(axis=0)
    return np.asarray(different <= len(pooled) // 4, dtype=bool)
