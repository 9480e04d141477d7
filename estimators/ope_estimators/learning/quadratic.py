"""Ridge regression on squares and products of features, its penalty chosen from the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from ope_bench import FloatArray, IntArray, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

__all__ = ["MAX_PRODUCTS", "PENALTIES", "QuadraticRegressor", "RidgePath", "unit_errors"]

MAX_PRODUCTS = 3_000
"""Most features, squares and products together for a quadratic regression."""

UNIT_FOLDS = 5

PENALTIES = tuple(float(one) for one in np.logspace(-3, 6, 28))


class QuadraticRegressor:
    """E[y|x] by ridge regression on the features, their squares and their products of two.

    Columns are standardized before and after they are multiplied. The penalty is the one with the
    least squared error when each row is predicted from all others (leave-one-out, which ridge
    regression gives in closed form) or, where rows form units, each fifth of the units from the
    other four.

    Parameters
    ----------
    penalties : candidate penalties on the squared coefficients of standardized columns, relative
        to a sum of squared errors.

    Attributes
    ----------
    penalty_ : the chosen penalty.

    Raises
    ------
    UnavailableError : more than `MAX_PRODUCTS` columns.
    """

    takes_units = True

    structured_rows: ClassVar[int] = 6_000
    """Logged rows from which `everywhere` predicts all pairs: its rounding is not `predict`'s."""

    def __init__(self, penalties: Sequence[float] = PENALTIES) -> None:
        self.penalties = penalties

    def fit(self, features: ArrayLike, outcome: ArrayLike, unit: IntArray | None = None) -> Self:
        """Fit to ``features`` (k, d), ``outcome`` (k,), and optional ``unit`` (k,)."""
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import PolynomialFeatures, StandardScaler

        table, y = np.asarray(features, dtype=np.float64), np.asarray(outcome, dtype=np.float64)
        d = table.shape[1]
        if d * (d + 3) // 2 > MAX_PRODUCTS:
            msg = (
                f"{d} features have {d * (d + 3) // 2:,} squares and products with themselves (at "
                f"most {MAX_PRODUCTS:,}); set action_features to 'embedding' or 'separate', or "
                "the regressor to 'ridge'"
            )
            raise UnavailableError(msg)
        products = PolynomialFeatures(2, include_bias=False)
        self.columns_: Any = make_pipeline(StandardScaler(), products, StandardScaler())
        scaled = self.columns_.fit_transform(table)
        self.center_ = float(y.mean())
        penalties = np.asarray(self.penalties, dtype=np.float64)
        path = RidgePath.of(scaled, y - self.center_)
        if unit is None:
            error = path.leave_one_out(penalties)
        else:
            error = unit_errors(scaled, y, unit, penalties)
        self.penalty_ = float(penalties[error.argmin()])
        self.coefficients_ = path.coefficients(np.array([self.penalty_]))[:, 0]
        return self

    def predict(self, features: ArrayLike) -> FloatArray:
        """Return the fitted mean: (k,)."""
        predicted: FloatArray = self.columns_.transform(features) @ self.coefficients_
        return self.center_ + predicted

    def everywhere(self, context: FloatArray, points: FloatArray) -> FloatArray:
        """Predict each context beside each point, in the order of `np.ndindex`: (k * p,).

        Squares and products of one side are added up by themselves, and those of both are one
        product of matrices, instead of a row of products for each pair.

        Parameters
        ----------
        context : (k, d_context)
        points : (p, d), with the context's the features of the fit.
        """
        first, _, last = (step for _, step in self.columns_.steps)
        slope = self.coefficients_ / last.scale_
        d, own = len(first.mean_), context.shape[1]
        form = np.zeros((d, d))
        form[np.triu_indices(d)] = slope[d:]
        sides = []
        for table, columns in ((context, slice(None, own)), (points, slice(own, None))):
            scaled = (table - first.mean_[columns]) / first.scale_[columns]
            squares = np.einsum("kd,kd->k", scaled @ form[columns, columns], scaled)
            sides.append((scaled, scaled @ slope[:d][columns] + squares))
        (left, alone), (right, other) = sides
        out: FloatArray = (left @ form[:own, own:]) @ right.T
        out += (alone + (self.center_ - last.mean_ @ slope))[:, None]
        out += other
        return out.reshape(-1)


@dataclass(frozen=True, eq=False)
class RidgePath:
    """Ridge regressions with one table and many penalties, from one decomposition.

    Parameters
    ----------
    outcome : (k,), of mean zero.
    square : (r,), squared singular values of the table, whose columns have mean zero.
    scores : (k, r), the table along its right singular vectors.
    axes : (d, r), those vectors.
    products : (r,), scores times outcome, of all rows where table and outcome are of some.
    """

    outcome: FloatArray
    square: FloatArray
    scores: FloatArray
    axes: FloatArray
    products: FloatArray | None = None

    @classmethod
    def of(cls, table: FloatArray, outcome: FloatArray) -> RidgePath:
        """Decompose the smaller of the two products of the table with itself."""
        k, d = table.shape
        if k > d:
            square, axes = np.linalg.eigh(table.T @ table)
            return cls(outcome, np.maximum(square, 0.0), table @ axes, axes)
        square, left = np.linalg.eigh(table @ table.T)
        square = np.maximum(square, 0.0)
        root = np.sqrt(square)
        # Directions without variance have no axis; their scores are 0.
        axes = np.divide(table.T @ left, root, out=np.zeros((d, k)), where=root > 0)
        return cls(outcome, square, left * root, axes)

    @classmethod
    def of_products(cls, square: FloatArray, product: FloatArray) -> RidgePath:
        """Decompose the products of a table with itself, (d, d), and with the outcome, (d,).

        Such a path has no rows, and so no leave-one-out error.
        """
        values, axes = np.linalg.eigh(square)
        none = np.empty((0, len(product)))
        return cls(none[:, 0], np.maximum(values, 0.0), none, axes, axes.T @ product)

    def coefficients(self, penalties: FloatArray) -> FloatArray:
        """Return the coefficients for each penalty: (d, p)."""
        return self.axes @ (self._shrink(penalties) * self._products[:, None])

    def leave_one_out(self, penalties: FloatArray, share: FloatArray | None = None) -> FloatArray:
        """Return the leave-one-out mean squared error for each penalty: (p,).

        The error of a row left out is its residual over ``1 - h``, where h is the row's leverage,
        including that of the intercept. Where table and outcome are rows times the roots of
        weights, ``share`` (k,) has the weights over their sum.
        """
        shrink = self._shrink(penalties)
        fit = self.scores @ (shrink * self._products[:, None])
        own = 1.0 / len(self.outcome) if share is None else share[:, None]
        leverage = own + np.square(self.scores) @ shrink
        error = (self.outcome[:, None] - fit) / np.maximum(1.0 - leverage, 1e-12)
        return np.asarray(np.square(error).mean(axis=0), dtype=np.float64)

    @property
    def _products(self) -> FloatArray:
        return self.scores.T @ self.outcome if self.products is None else self.products

    def _shrink(self, penalties: FloatArray) -> FloatArray:
        return 1.0 / (self.square[:, None] + penalties)


def unit_errors(
    table: FloatArray, outcome: FloatArray, unit: IntArray, penalties: FloatArray
) -> FloatArray:
    """Return the mean squared error of folds of units predicted from the others: (p,)."""
    units, row = np.unique(unit, return_inverse=True)
    fold = row.reshape(-1) % min(UNIT_FOLDS, len(units))
    k, d = table.shape
    rows = np.column_stack([table, outcome - outcome.mean(), np.ones(k)])
    # Products of the other folds' rows are those of all rows less the fold's: a fifth of the work.
    total = rows.T @ rows if k > 2 * d else None
    error = np.zeros(len(penalties))
    for this in np.unique(fold):
        held, others = rows[fold == this], rows[fold != this]
        if not len(others):
            return error
        mean = others[:, :-1].mean(axis=0)
        if total is None:
            path = RidgePath.of(others[:, :d] - mean[:d], others[:, d] - mean[d])
        else:
            left = (total - held.T @ held)[:-1, :-1] - len(others) * np.outer(mean, mean)
            path = RidgePath.of_products(left[:d, :d], left[:d, d])
        fit = mean[d] + (held[:, :d] - mean[:d]) @ path.coefficients(penalties)
        error += np.square(held[:, [d]] - fit).sum(axis=0)
    return np.asarray(error / k)
