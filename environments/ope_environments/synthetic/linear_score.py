"""Scores that are affine in the context, and what that structure saves."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ope_bench import EpsilonGreedy, FloatArray, IntArray, Softmax, row_chunks

__all__ = ["LinearGreedy", "ActionScore", "LinearSoftmax", "greedy_value"]

PRUNE_FROM = 2_000
"""Number of actions from which finding the few that can be greedy pays for itself."""

PRUNE_DIMENSIONS = 4
"""Most dimensions in which a convex hull is cheap."""

SPAN = 1_024
"""Actions that many rows look at together where there are very many actions."""

LEAST_ENTRIES = 128
"""Entries that a row counts for at least: with few actions, chunks of all rows would be too large
for memory that is reused."""

SINGLE_FROM = 500
"""Number of actions from which the best ones are looked for in single precision first."""

LEAST_WEIGHT = 1e-30
"""Weights count as at least so large, beside numbers too small for single precision."""

FINITE = 600.0
"""Logits whose exponentials, and sums of these, are finite and not 0."""

FLAT = 1e-12
"""Spread, beside the largest weight, below which an axis holds rounding errors only."""


class ActionScore:
    """score(x, a) = w_a[0] + w_a[1:] . x, the expected reward of many synthetic worlds.

    Parameters
    ----------
    weights : (1 + d_context, n_actions), the intercepts first.

    >>> score = ActionScore(np.array([[0.0, 1.0], [2.0, 0.0]]))
    >>> score(np.array([[3.0]]))
    array([[6., 1.]])
    """

    def __init__(self, weights: FloatArray) -> None:
        self.weights = np.ascontiguousarray(weights)

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return int(self.weights.shape[1])

    def __call__(self, context: FloatArray) -> FloatArray:
        """Return the scores of one chunk of contexts: (k, n_actions)."""
        return _with_one(context) @ self.weights

    def at(self, context: FloatArray, action: IntArray) -> FloatArray:
        """Return the score of each row's action: (n,)."""
        scores: FloatArray = np.einsum("nd,dn->n", _with_one(context), self.weights[:, action])
        return scores

    def mean(self, context: FloatArray) -> FloatArray:
        """Return the mean over actions, without a table: (n,)."""
        average: FloatArray = _with_one(context) @ self.weights.mean(axis=1)
        return average

    def contenders(self) -> IntArray:
        """Return ascending indices of a set of actions that holds the best one of every context.

        max_a w_a . (1, x) is attained at a vertex of the convex hull of the w_a, and hulls of
        very many points in few dimensions have few vertices.
        """
        everyone = np.arange(self.n_actions)
        if self.n_actions < PRUNE_FROM:
            return everyone
        # Few embeddings make the w_a lie in few dimensions, whatever the length of the context.
        centered = self.weights - self.weights.mean(axis=1, keepdims=True)
        points = (np.linalg.eigh(centered @ centered.T)[1].T @ centered).T
        spread = np.abs(points).max(axis=0)
        points = points[:, spread > FLAT * np.abs(self.weights).max()]
        if points.shape[1] > PRUNE_DIMENSIONS:
            return everyone
        if points.shape[1] < 2:
            ends = [points.argmin(), points.argmax()] if points.size else [0]
            return np.unique(ends).astype(np.int64)
        from scipy.spatial import ConvexHull

        return np.sort(ConvexHull(points).vertices).astype(np.int64)


class LinearSoftmax(Softmax):
    """Softmax of a `ActionScore`, whose temperature is part of the weights.

    Parameters
    ----------
    score : the affine score.
    beta : inverse temperature.
    """

    def __init__(self, score: ActionScore, beta: float = 1.0) -> None:
        super().__init__(score, score.n_actions, beta)
        self._scaled = ActionScore(beta * score.weights)

    def project(self, context: FloatArray, features: FloatArray) -> FloatArray:
        """Return E[features[a]] over actions: (n, k); of one feature without a table."""
        if features.shape[1] != 1:
            return super().project(context, features)
        length = float(np.linalg.norm(self._scaled.weights, axis=0).max())
        # Logits are within this: their exponentials are finite as they are.
        within = length * np.sqrt(1.0 + np.square(context).sum(axis=1).max(initial=0.0)) < FINITE
        ones, out = np.ones(len(features)), np.empty((len(context), 1))
        for rows in row_chunks(len(context), self.n_actions):
            if within:
                weights = self._logits(context[rows])
                np.exp(weights, out=weights)
            else:
                weights = self._weights(context[rows])
            out[rows, 0] = (weights @ features[:, 0]) / (weights @ ones)
        return out

    def _logits(self, context: FloatArray) -> FloatArray:
        """Return beta * score in one product: (k, n_actions)."""
        return self._scaled(context)


class LinearGreedy(EpsilonGreedy):
    """Epsilon-greedy on a `ActionScore`.

    Parameters
    ----------
    score : the affine score.
    epsilon : exploration share in [0, 1].
    """

    def __init__(self, score: ActionScore, epsilon: float) -> None:
        super().__init__(score, score.n_actions, epsilon)
        self._contenders = score.contenders()
        self._weights = np.ascontiguousarray(score.weights[:, self._contenders])
        n_contenders = len(self._contenders)
        # Where a single row would fill a chunk, many rows look at a span of actions together:
        # else each of them would fetch all weights from memory for itself.
        self._span = n_contenders if len(row_chunks(1, n_contenders)) == 1 else SPAN
        with np.errstate(over="ignore"):
            self._single = self._weights.astype(np.float32)
        # Conversion and sums of d products each: (d + 2) roundings of |w| |x| at most, and as much
        # for the second best score. Two more are for what is computed of the scores.
        length = np.sqrt(np.square(self._weights).sum(axis=0)).max(initial=LEAST_WEIGHT)
        roundings = 2 * (len(self._weights) + 4)
        self._least_gap = roundings * 0.5 * float(np.finfo(np.float32).eps) * float(length)

    def best(self, context: FloatArray) -> IntArray:
        """Return argmax over the actions that can be greedy: (n,)."""
        n_contenders, span = len(self._contenders), self._span
        chunks = row_chunks(len(context), max(span, LEAST_ENTRIES))
        if span == n_contenders < SINGLE_FROM and len(chunks) == 1:
            greedy: IntArray = (_with_one(context) @ self._weights).argmax(axis=1)
            return self._contenders[greedy]
        if SINGLE_FROM <= n_contenders == span:
            found, certain = self._best_in_single(context)
        else:
            found = np.empty(len(context), dtype=np.int64)
            certain = np.zeros(len(context), dtype=np.bool_)
        for rows in chunks:
            if certain[rows].all():
                continue
            design = _with_one(context[rows])
            scores = design @ self._weights[:, :span]
            best = scores.argmax(axis=1)
            if span < n_contenders:
                best = self._ahead(design, best, scores.max(axis=1), span)
            found[rows] = best
        return self._contenders[found]

    def _best_in_single(self, context: FloatArray) -> tuple[IntArray, npt.NDArray[np.bool_]]:
        """Return the argmax in single precision, and whether it is exact: (n,), (n,)."""
        n_contenders = len(self._contenders)
        found = np.empty(len(context), dtype=np.int64)
        certain = np.empty(len(context), dtype=np.bool_)
        # Entries of half the size: twice as many rows fill a chunk.
        for rows in row_chunks(len(context), n_contenders // 2):
            design = _with_one(context[rows])
            with np.errstate(over="ignore", invalid="ignore"):
                scores = design.astype(np.float32) @ self._single
                best = scores.argmax(axis=1)
                entries = scores.reshape(-1)
                at = best + np.arange(0, scores.size, n_contenders)
                gap = entries[at]
                entries[at] = -np.inf
                gap -= scores.max(axis=1)
                least = self._least_gap * np.sqrt(np.square(design).sum(axis=1))
            found[rows], certain[rows] = best, (gap > least) & (gap < np.inf)
        return found, certain

    def _ahead(
        self, design: FloatArray, best: IntArray, leading: FloatArray, span: int
    ) -> IntArray:
        """Return the argmax over all spans, given the first one's, whose maximum is leading."""
        for start in range(span, len(self._contenders), span):
            scores = design @ self._weights[:, start : start + span]
            at = scores.argmax(axis=1)
            score = np.take_along_axis(scores, at[:, None], axis=1)[:, 0]
            ahead = score > leading
            best[ahead] = start + at[ahead]
            leading[ahead] = score[ahead]
        return best


def greedy_value(score: ActionScore, policy: LinearGreedy, context: FloatArray) -> FloatArray:
    """Sum over actions of pi(a|x) score(x, a), without a table: (n,).

    No method of the policy: an estimator that is granted the policy must not be told its value.
    """
    greedy = score.at(context, policy.greedy(context))
    return (1.0 - policy.epsilon) * greedy + policy.epsilon * score.mean(context)


def _with_one(context: FloatArray) -> FloatArray:
    design = np.empty((len(context), 1 + context.shape[1]))
    design[:, 0] = 1.0
    design[:, 1:] = context
    return design
