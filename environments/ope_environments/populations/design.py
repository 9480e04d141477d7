"""Contexts with categorical and continuous columns as the design matrix of a linear model."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ope_bench import Column, DataError, FloatArray

__all__ = ["Design"]


class Design:
    """A column of ones, one column per category, and standardized continuous columns.

    Parameters
    ----------
    columns : kinds of the context's columns.
    context : (n, d_context), whose mean and standard deviation standardize.

    >>> columns = Column(), Column("categorical", (0.0, 1.0))
    >>> design = Design(columns, np.array([[1.0, 0], [3, 1]]))
    >>> design(np.array([[2.0, 1.0]]))
    array([[1., 0., 0., 1.]])
    """

    def __init__(self, columns: tuple[Column, ...], context: FloatArray) -> None:
        self._parts: list[Callable[[FloatArray], FloatArray]] = []
        for k, column in enumerate(columns):
            if column.kind == "categorical":
                self._parts.append(_one_hot(k, np.array(column.categories)))
            else:
                std = float(context[:, k].std())
                self._parts.append(_scaled(k, float(context[:, k].mean()), std or 1.0))
        self.width = 1 + sum(
            len(column.categories) if column.kind == "categorical" else 1 for column in columns
        )

    def __call__(self, context: FloatArray) -> FloatArray:
        """Return the features of each context: (n, width)."""
        parts = [part(context) for part in self._parts]
        return np.concatenate([np.ones((len(context), 1)), *parts], axis=1)


def _one_hot(k: int, categories: FloatArray) -> Callable[[FloatArray], FloatArray]:
    def encode(context: FloatArray) -> FloatArray:
        hits: FloatArray = (context[:, k, None] == categories).astype(np.float64)
        if not hits.any(axis=1).all():
            row = int(np.argmin(hits.any(axis=1)))
            msg = f"context[{row}, {k}] = {context[row, k]} is not one of its categories"
            raise DataError(msg)
        return hits

    return encode


def _scaled(k: int, mean: float, std: float) -> Callable[[FloatArray], FloatArray]:
    def encode(context: FloatArray) -> FloatArray:
        return (context[:, k, None] - mean) / std

    return encode
