"""The default model of rewards: a linear mixed model, effects of actions around common ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from ope_bench import FloatArray, IntArray
from ope_estimators.learning.per_action import Rotated, marginal_penalty
from ope_estimators.learning.pooled_sums import Sums
from ope_estimators.learning.quadratic import PENALTIES, RidgePath, unit_errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

__all__ = ["PooledRegressor"]

MAX_CELLS = 10_000_000
"""Most numbers in the table of squares and products: 80 MB."""

MAX_SIDE = 2_000
"""Rows or columns, whichever are fewer, up to which the penalty is chosen from the data."""

REACH = 4.0
"""Standard deviations at which columns are clipped in squares and products of bounded fits."""

MANY_ROWS = 50_000
"""Rows above which a fit is by sums of products: other rounding, and a quarter of the time."""

PASSES = 2
"""Fits of the common model given the variance of the actions' deviations."""


class Group(NamedTuple):
    """Actions with equal numbers of rows: their rows, and the decomposition of their designs.

    Parameters
    ----------
    actions : (g,)
    rows : (g, k)
    left, scale, axes : (g, k, r), (g, r), (g, r, p), singular value decompositions.
    """

    actions: IntArray
    rows: IntArray
    left: FloatArray
    scale: FloatArray
    axes: FloatArray


class PooledRegressor:
    """E[y|x, a] = c + m(x, e_a) + b_a . phi(x), m common to all actions and one b_a per action.

    A linear mixed model. m is a ridge regression on the context and the features e_a of the
    action, their squares and their products of two. Where these are more than ``max_squares``, it
    is on the features and the products of one of the context with one of e_a; where these are
    more than ``max_products``, on the features alone. phi(x) is a one and the d standardized
    context columns over sqrt(d), so that intercept and slopes of an action have equal prior
    variance:

        y = c + m(x, e_a) + b_a . phi(x) + noise,   b_a ~ N(0, tau² I),  noise ~ N(0, sigma²)

    sigma² / tau² has the largest marginal likelihood of what m leaves over. Given it, all parts
    are fitted at once, so that actions with many rows do not have all the weight in m. The
    penalty of m is the one with the least squared error when each row is predicted from all
    others or, where rows form units, each fifth of the units from the other four. An action that
    was never logged has b_a = 0: what is known of it is its features.

    Without ``by_action`` it is m alone.

    ``bounded`` is what keeps it from extrapolating. Columns of context and features are clipped
    to the values that the fit has seen, and in squares and products to `REACH` standard
    deviations of the clipped columns too: the square of one value far outside would otherwise
    outweigh all others. Predictions are clipped to the outcomes that the fit has seen.

    Parameters
    ----------
    n_context : number of context columns, which come first; None where they are not told apart.
    by_action : whether a column with the action's number is in front of them.
    bounded : whether columns and predictions are clipped.
    max_squares : most features, squares and products together.
    max_products : most features and products of a context column with another column together.
    penalties : candidate penalties on the squared coefficients of standardized columns, relative
        to a sum of squared errors. With more than 2,000 rows and columns it is the number of
        columns instead.

    Attributes
    ----------
    n_products_ : number of squares and products.
    penalty_ : the chosen penalty of m.
    shrinkage_ : sigma² / tau².

    References
    ----------
    That BLUP is a good thing: the estimation of random effects (Robinson, 1991), equation 1.2.
    """

    takes_units = True

    def __init__(
        self,
        n_context: int | None = None,
        *,
        by_action: bool = False,
        bounded: bool = False,
        max_squares: int = 300,
        max_products: int = 500,
        penalties: Sequence[float] = PENALTIES,
    ) -> None:
        self.n_context = n_context
        self.by_action = by_action
        self.bounded = bounded
        self.max_squares = max_squares
        self.max_products = max_products
        self.penalties = penalties

    def fit(
        self,
        features: ArrayLike,
        outcome: ArrayLike,
        unit: IntArray | None = None,
        sample_weight: FloatArray | None = None,
    ) -> Self:
        """Fit to ``features`` (k, d) and ``outcome`` (k,); optional ``unit`` and weights (k,)."""
        y = np.asarray(outcome, dtype=np.float64)
        action, table = self._split(features)
        n, d = table.shape
        share = np.full(n, 1 / n) if sample_weight is None else sample_weight / sample_weight.sum()
        if self.bounded:
            counted = share > 0
            self.columns_ = table[counted].min(axis=0), table[counted].max(axis=0)
            self.outcomes_ = y[counted].min(), y[counted].max()
            table = np.clip(table, *self.columns_)
        self.mean_, self.scale_ = _moments(table, share)
        table = (table - self.mean_) / self.scale_
        self.varying_ = max(1, int((table[:, : self.n_context] != 0).any(axis=0).sum()))
        first, second = self._products(n, d)
        self.n_products_ = len(first)
        # Columns that are multiplied with none need no limits.
        ends = -np.inf * self.scale_, np.inf * self.scale_
        self.reach_ = _reach(table, share) if len(first) else ends
        inner = self._inner(table, slice(None))
        slopes = table[:, : self.n_context].shape[1]
        n_seen = 1 if action is None else len(np.unique(action))
        if (
            n > MANY_ROWS
            and unit is None
            and sample_weight is None
            and d <= MAX_SIDE
            and n_seen * (1 + slopes) * (d + len(first) + 2) <= MAX_CELLS
        ):
            spread = np.sqrt(self.varying_)
            sums = Sums(table, inner, first, second, y, action, slopes, spread)
            mean, scale = sums.mean, sums.scale
            coefficients, center = self._chosen(*sums.path(None))
            for _ in range(PASSES if action is not None else 0):
                residual = np.array([*-coefficients, -center, 1.0])
                self.shrinkage_ = marginal_penalty(*sums.rotated(residual), n)
                coefficients, center = self._chosen(*sums.path(self.shrinkage_))
            if action is not None:
                residual = np.array([*-coefficients, -center, 1.0])
                self.seen_ = sums.actions
                self.deviation_ = sums.deviations(residual, self.shrinkage_)
        else:
            basis = np.hstack([table, inner[:, first] * inner[:, second]])
            mean, scale = _moments(basis, share)
            # Rows times the roots of their weights, which are 1 on average.
            root = np.sqrt(n * share)[:, None]
            rows = np.column_stack([(basis - mean) / scale, np.ones(n), y]) * root
            groups = [] if action is None else _groups(action, self._design(table) * root)
            coefficients, center = self._common(rows, unit)
            for _ in range(PASSES if groups else 0):
                residual = rows @ np.array([*-coefficients, -center, 1.0])
                self.shrinkage_ = _shrinkage(groups, residual)
                coefficients, center = self._common(_whitened(groups, rows, self.shrinkage_), unit)
            if groups:
                residual = rows @ np.array([*-coefficients, -center, 1.0])
                self.seen_, self.deviation_ = _deviations(groups, residual, self.shrinkage_)
        coefficients = coefficients / scale
        self.intercept_ = center - float(mean @ coefficients)
        self.linear_ = coefficients[:d]
        # A symmetric form: half of each product's coefficient on either side.
        self.form_ = np.zeros((d, d))
        self.form_[first, second] = coefficients[d:] / 2
        self.form_ += self.form_.T
        return self

    def predict(self, features: ArrayLike) -> FloatArray:
        """Return the fitted mean: (k,)."""
        action, table = self._split(features)
        if self.bounded:
            table = np.clip(table, *self.columns_)
        table = (table - self.mean_) / self.scale_
        out = self.intercept_ + self._part(table, slice(None))
        if action is not None:
            at = np.minimum(np.searchsorted(self.seen_, action), len(self.seen_) - 1)
            own = np.einsum("kp,kp->k", self._design(table), self.deviation_[at])
            out += np.where(self.seen_[at] == action, own, 0.0)
        return np.clip(out, *self.outcomes_) if self.bounded else out

    def everywhere(self, context: FloatArray, points: FloatArray) -> FloatArray:
        """Predict each context beside each point, in the order of `np.ndindex`: (k * p,).

        Parameters
        ----------
        context : (k, d_context)
        points : (p, d), features of embeddings or, with ``by_action``, of all actions in order.
        """
        d = context.shape[1]
        own, others = slice(None, d), slice(d, None)
        if self.bounded:
            low, high = self.columns_
            context = np.clip(context, low[own], high[own])
            points = np.clip(points, low[others], high[others])
        context = (context - self.mean_[own]) / self.scale_[own]
        points = (points - self.mean_[others]) / self.scale_[others]
        form = self.form_[own, others]
        out = np.zeros((len(context), len(points)))
        if self.n_products_:
            out = 2 * (self._inner(context, own) @ form) @ self._inner(points, others).T
        out += self._part(context, own)[:, None]
        out += self.intercept_ + self._part(points, others)
        if self.by_action:
            deviation = np.zeros((len(points), self.deviation_.shape[1]))
            deviation[self.seen_] = self.deviation_
            out += self._design(context) @ deviation.T
        if self.bounded:
            np.clip(out, *self.outcomes_, out=out)
        return out.reshape(-1)

    def _split(self, features: ArrayLike) -> tuple[IntArray | None, FloatArray]:
        table = np.asarray(features, dtype=np.float64)
        return (table[:, 0].astype(int), table[:, 1:]) if self.by_action else (None, table)

    def _products(self, n: int, d: int) -> tuple[IntArray, IntArray]:
        """Return both columns of each product of m, for n rows of d features: (q,), (q,)."""
        first, second = np.triu_indices(d)
        if len(first) + d <= self.max_squares and (len(first) + d) * n <= MAX_CELLS:
            return first, second
        own = d if self.n_context is None else self.n_context
        crossed = (first < own) & (second >= own)
        few = crossed.sum() + d <= self.max_products and (crossed.sum() + d) * n <= MAX_CELLS
        return first[crossed & few], second[crossed & few]

    def _design(self, table: FloatArray) -> FloatArray:
        """Return phi(x) of standardized features: (k, 1 + n_context)."""
        slopes = table[:, : self.n_context] / np.sqrt(self.varying_)
        return np.column_stack([np.ones(len(table)), slopes])

    def _part(self, table: FloatArray, columns: slice) -> FloatArray:
        """Return what some columns add to m by themselves, of standardized ones: (k,)."""
        part: FloatArray = table @ self.linear_[columns]
        if self.n_products_:
            inner = self._inner(table, columns)
            part += np.einsum("kd,kd->k", inner @ self.form_[columns, columns], inner)
        return part

    def _inner(self, table: FloatArray, columns: slice) -> FloatArray:
        """Return some standardized columns as squares and products see them: (k, d)."""
        if not self.bounded:
            return table
        low, high = self.reach_
        return np.clip(table, low[columns], high[columns])

    def _chosen(
        self, path: RidgePath, mean: FloatArray, share: FloatArray
    ) -> tuple[FloatArray, float]:
        """Return the coefficients of m, and c, by the penalty that is best for rows left out.

        Parameters
        ----------
        path, mean, share : as of `Sums.path`.
        """
        penalties = np.asarray(self.penalties, dtype=np.float64)
        error = path.leave_one_out(penalties, share)
        self.penalty_ = float(penalties[error.argmin()])
        found = path.coefficients(np.array([self.penalty_]))[:, 0]
        return found, float(mean[-1] - mean[:-1] @ found)

    def _common(self, rows: FloatArray, unit: IntArray | None) -> tuple[FloatArray, float]:
        """Return the coefficients of m, and c.

        Parameters
        ----------
        rows : (k, d + 2), the features, the column of c, and the outcome.
        unit : (k,)
        """
        one = rows[:, -2]
        norm = float(one @ one)
        mean = one @ rows / norm
        table = rows[:, :-2] - np.outer(one, mean[:-2])
        outcome = rows[:, -1] - one * mean[-1]
        if min(table.shape) > MAX_SIDE:
            self.penalty_ = float(table.shape[1])
            found = _iterated(table, outcome, self.penalty_)
        else:
            penalties = np.asarray(self.penalties, dtype=np.float64)
            path = RidgePath.of(table, outcome)
            if unit is None:
                error = path.leave_one_out(penalties, np.square(one) / norm)
            else:
                error = unit_errors(table, outcome, unit, penalties)
            self.penalty_ = float(penalties[error.argmin()])
            found = path.coefficients(np.array([self.penalty_]))[:, 0]
        return found, float(mean[-1] - mean[:-2] @ found)


def _groups(action: IntArray, design: FloatArray) -> list[Group]:
    """Decompose the designs of the actions, those of equal sizes at once."""
    order = np.argsort(action, kind="stable")
    seen, start, count = np.unique(action[order], return_index=True, return_counts=True)
    groups = []
    for size in np.unique(count):
        some = np.flatnonzero(count == size)
        rows = order[start[some][:, None] + np.arange(size)]
        groups.append(Group(seen[some], rows, *np.linalg.svd(design[rows], full_matrices=False)))
    return groups


def _shrinkage(groups: list[Group], residual: FloatArray) -> float:
    """Return sigma² / tau² of the largest marginal likelihood of what m leaves over, (k,)."""
    rotated = [
        Rotated(one.scale.reshape(-1), _scores(one, residual).reshape(-1), one.axes)
        for one in groups
    ]
    return marginal_penalty(rotated, float(residual @ residual), len(residual))


def _deviations(
    groups: list[Group], residual: FloatArray, shrinkage: float
) -> tuple[IntArray, FloatArray]:
    """Return the logged actions in order, and the b_a of each: (a,), (a, p)."""
    actions = np.concatenate([one.actions for one in groups])
    found = [
        np.einsum(
            "gr,grp->gp",
            one.scale / (one.scale**2 + shrinkage) * _scores(one, residual),
            one.axes,
        )
        for one in groups
    ]
    order = np.argsort(actions)
    return actions[order], np.concatenate(found)[order]


def _scores(group: Group, residual: FloatArray) -> FloatArray:
    """Return the residuals along the left singular vectors of each action: (g, r)."""
    scores: FloatArray = np.einsum("gk,gkr->gr", residual[group.rows], group.left)
    return scores


def _whitened(groups: list[Group], rows: FloatArray, shrinkage: float) -> FloatArray:
    """Multiply rows by the inverse root of the covariance that deviations give them: (k, d)."""
    out = rows.copy()
    for one in groups:
        less = 1.0 - np.sqrt(shrinkage / (one.scale**2 + shrinkage))
        scores = np.einsum("gkr,gkd->grd", one.left, rows[one.rows], optimize=True)
        out[one.rows] -= one.left @ (less[:, :, None] * scores)
    return out


def _iterated(table: FloatArray, outcome: FloatArray, penalty: float) -> FloatArray:
    """Return the coefficients of a ridge regression without decomposing the table: (d,)."""
    from scipy.sparse.linalg import lsqr

    found: FloatArray = lsqr(table, outcome, damp=np.sqrt(penalty), atol=1e-10, btol=1e-10)[0]
    return found


def _reach(table: FloatArray, share: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the values of standardized columns between which they are squared: (d,), (d,).

    Mean and standard deviation are those of clipped columns: one value far outside would stretch
    its own limit.
    """
    low, high = table.min(axis=0), table.max(axis=0)
    for _ in range(PASSES):
        mean, scale = _moments(np.clip(table, low, high), share)
        low, high = np.maximum(low, mean - REACH * scale), np.minimum(high, mean + REACH * scale)
    return low, high


def _moments(table: FloatArray, share: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and standard deviation of columns, 1 for constant ones: (d,), (d,)."""
    mean = share @ table
    variance = share @ np.square(table - mean)
    constant = variance <= (1e-12 * (1.0 + np.abs(mean))) ** 2
    return mean, np.where(constant, 1.0, np.sqrt(variance))
