"""Composition of embedding and context to one row of features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from ope_bench import Column, FloatArray, View

__all__ = ["Composition", "Features", "compose", "encode", "separate"]

Composition = Literal["concat", "tensor", "tensor-bias"]
"""``concat`` [G, C]; ``tensor`` G⊗C, printed for the forms with a flow; ``tensor-bias``
G⊗[1, C]."""


@dataclass(frozen=True, eq=False)
class Features:
    """Features of both samples, and which of their columns have finitely many values.

    Parameters
    ----------
    logged : (n, d)
    target : (m, d)
    discrete : (d,), whether a column (or the space that the columns span) has atoms.
    """

    logged: FloatArray
    target: FloatArray
    discrete: npt.NDArray[np.bool_]

    @property
    def pooled(self) -> FloatArray:
        """Return logged rows, then target rows: (n + m, d)."""
        return np.concatenate([self.logged, self.target])


def encode(rows: FloatArray, columns: tuple[Column, ...]) -> FloatArray:
    """Convert categorical columns to indicators of all categories but the first.

    Other columns are unchanged. Without the first category, no column is a sum of others, and a
    binary context stays one column.

    >>> encode(np.array([[0.5, 2.0]]), (Column(), Column("categorical", (0.0, 1.0, 2.0))))
    array([[0.5, 0. , 1. ]])
    """
    parts = [np.empty((len(rows), 0))]
    for values, column in zip(rows.T, columns, strict=True):
        if column.kind == "categorical":
            # A single category has a (constant) column.
            shown = column.categories[1:] or column.categories
            parts.append((values[:, None] == np.asarray(shown)).astype(np.float64))
        else:
            parts.append(values[:, None])
    return np.concatenate(parts, axis=1)


def compose(view: View, composition: Composition) -> Features:
    """Compose the features of both samples.

    Only an injective composition preserves the ratio of densities. ``tensor`` is not injective: it
    maps (G, C) and (sG, C/s) to the same features, and every row with C = 0 to the zero vector, so
    that a binary context is lost; categories enter it by their codes. ``tensor-bias`` adds the
    embedding itself to the products. Both have as many columns as products but no more dimensions
    than G and C together, hence no density with respect to all columns. Constant columns have no
    information and are dropped.

    Reference: Off-Policy Evaluation for Embedded Spaces (Lee, Arbour and Theocharous, 2022),
    section 3.3.
    """
    if composition == "concat":
        embedding, context = separate(view)
        return _or_constant(
            np.hstack([embedding.logged, context.logged]),
            np.hstack([embedding.target, context.target]),
            np.concatenate([embedding.discrete, context.discrete]),
        )
    pairs = [(view.embedding, view.context), (view.target_embedding, view.target_context)]
    if composition == "tensor-bias":
        schema = view.schema
        pairs = [
            (encode(g, schema.embedding), np.insert(encode(c, schema.context), 0, 1.0, axis=1))
            for g, c in pairs
        ]
    logged, target = ((g[:, :, None] * c[:, None, :]).reshape(len(g), -1) for g, c in pairs)
    varying = _varying(logged, target, np.ones(logged.shape[1], dtype=bool))
    return _or_constant(varying.logged, varying.target, varying.discrete)


def separate(view: View) -> tuple[Features, Features]:
    """Return the coded columns of embeddings and of contexts that vary; either may have none."""
    parts = []
    for columns, logged, target in (
        (view.schema.embedding, view.embedding, view.target_embedding),
        (view.schema.context, view.context, view.target_context),
    ):
        rows, others = encode(logged, columns), encode(target, columns)
        discrete = _declared(columns) | _few_values(rows, others)
        parts.append(_varying(rows, others, discrete))
    return parts[0], parts[1]


def _varying(logged: FloatArray, target: FloatArray, discrete: npt.NDArray[np.bool_]) -> Features:
    """Drop the columns that are constant over both samples."""
    kept = ((logged != logged[0]).any(axis=0)) | ((target != logged[0]).any(axis=0))
    return Features(logged[:, kept], target[:, kept], discrete[kept])


def _or_constant(
    logged: FloatArray, target: FloatArray, discrete: npt.NDArray[np.bool_]
) -> Features:
    """Return the features or, without columns, one of zeros: a classifier needs a column."""
    if discrete.size:
        return Features(logged, target, discrete)
    return Features(np.zeros((len(logged), 1)), np.zeros((len(target), 1)), np.array([True]))


def _declared(columns: tuple[Column, ...]) -> npt.NDArray[np.bool_]:
    """Return which coded columns are discrete by the schema: (d,)."""
    flags: list[bool] = []
    for column in columns:
        coded = len(column.categories) - 1 if column.kind == "categorical" else 1
        flags += [column.kind != "continuous"] * max(1, coded)
    return np.array(flags, dtype=bool)


def _few_values(logged: FloatArray, target: FloatArray) -> npt.NDArray[np.bool_]:
    """Return which columns repeat their values, whatever their kind in the schema: (d,).

    Contexts that both samples share appear twice, which does not count as repetition.
    """
    pooled = np.sort(np.concatenate([logged, target]), axis=0)
    different = 1 + (np.diff(pooled, axis=0) > 0).sum(axis=0)
    return np.asarray(different <= len(pooled) // 4, dtype=bool)
