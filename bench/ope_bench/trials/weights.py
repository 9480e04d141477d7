"""Accuracy and balance of estimated weights."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ope_bench.contracts.arrays import FloatArray, row_chunks
from ope_bench.contracts.data import BoolArray, Column, Problem
from ope_bench.contracts.plugins import Estimate, WeightSpace

_Facts = tuple[tuple[object, ...], dict[str, float]]

_LAST: weakref.WeakKeyDictionary[Problem, _Facts] = weakref.WeakKeyDictionary()


def weight_diagnostics(problem: Problem, estimate: Estimate) -> dict[str, float]:
    """Return `weight_accuracy` and `weight_balance`, computed once for estimators in a row whose
    weights are equal."""
    # Bytes, for an estimator may change its array later.
    both = (estimate.weights, estimate.target_weights)
    key = (estimate.weight_space, *(None if one is None else one.tobytes() for one in both))
    known, facts = _LAST.get(problem, ((), {}))
    if known != key:
        facts = weight_accuracy(problem, estimate) | weight_balance(problem, estimate)
        _LAST[problem] = key, facts
    return facts


# Accuracy of estimated weights against the true ratio, where the environment knows it.

MOST_ENTRIES = 1_000_000_000
"""Rows times actions above which marginals over embeddings are not computed."""

LOG_LOSS_CURVATURE = 0.5
"""h''(1) for the log-loss.

A proper loss with Bayes risk L gives, for balanced classes and the ratio w of class densities,
regret = E_0[B_h(w, ŵ)] / 2 with h(z) = -(1 + z) L(z / (1 + z)) (Menon and Ong, 2016, "Linking
losses for density ratio and class-probability estimation", section 4). For the log-loss
h(z) = z log z - (1 + z) log(1 + z), hence h''(z) = 1 / (z (1 + z)).
"""


@runtime_checkable
class KnownDivergence(Protocol):
    """An embedding distribution with KL(target || logging) in closed form."""

    def divergence(self) -> float:
        """Return the divergence in nats."""


@dataclass(frozen=True, eq=False)
class _TrueRatio:
    """The log of the true ratio; infinite where one density is zero.

    Parameters
    ----------
    logged : (n,)
    at_target : how to compute that of the target rows, (m,); None where it is unknown.
    """

    logged: FloatArray
    at_target: Callable[[], FloatArray] | None

    @cached_property
    def target(self) -> FloatArray | None:
        """That of the target rows: (m,), computed once, for estimators with weights there."""
        return None if self.at_target is None else self.at_target()


_KNOWN: weakref.WeakKeyDictionary[Problem, dict[WeightSpace, _TrueRatio | None]] = (
    weakref.WeakKeyDictionary()
)


def weight_accuracy(problem: Problem, estimate: Estimate) -> dict[str, float]:
    """Compare the estimate's weights with the true ratio; empty where that is unknown.

    ``log_ratio_rmse``
        of log ŵ over the logged rows where both ratios are positive and finite;
        ``target_log_ratio_rmse`` the same over the target rows.
    ``true_mean_weight``
        mean of the true ratio over the logged rows; one in expectation.
    ``weight_bias``, ``weight_variance``
        mean of Y (ŵ - w) over the logged rows, and the variance of Y ŵ over n: what using ŵ for w
        does to a weighted mean in this sample.
    ``kl_estimate``, ``kl_true``, ``kl_error``
        mean of log ŵ over the target rows, and KL(target || logging): in closed form where the
        environment knows it, else the mean of log w over the same rows; ``kl_error`` is their
        absolute difference.
    ``log_loss_regret``
        E KL(η || η̂) over both samples in equal parts, η = w / (1 + w): expected log-loss beyond
        the best possible.
    ``bias_bound``, ``variance_bound``
        with κ = sqrt(regret) and h''(1) = 1/2,

            2 / sqrt(h''(1)) κ E_0|Y|
            (E_0[Y² w²] + 4 / sqrt(h''(1)) κ E_0[Y² w] + 4 / h''(1) κ² E_0[Y²]) / n

        by Lemmas 1 and 2 of "Off-Policy Evaluation for Embedded Spaces" (Lee, Arbour and
        Theocharous, 2022), the latter as in its proof (the printed formula lacks Y² in the last
        term; Lemma 5 also the 1/n). Lemmas 4 and 5 are the same, because a flow does not change w.
        The lemmas assume that the curvature of h is that at 1 everywhere and that E|Y||ŵ - w| is
        at most E|Y| E|ŵ - w|; neither holds in general, so ``weight_bias`` can exceed its bound,
        which the comparison shows.
    """
    weights, space = estimate.weights, estimate.weight_space
    if weights is None or space is None or weights.shape != problem.reward.shape:
        return {}
    try:
        with np.errstate(all="ignore"):
            known = _KNOWN.setdefault(problem, {})
            if space not in known:
                ratio = _on_actions if space == "action" else _on_embeddings
                known[space] = ratio(problem)
            truth = known[space]
            facts = {} if truth is None else _facts(problem, estimate, weights, truth)
            return {name: value for name, value in facts.items() if math.isfinite(value)}
    except Exception:  # a plugin's distribution may raise any exception; the trial remains valid
        return {}


def _on_actions(problem: Problem) -> _TrueRatio | None:
    logging, target = problem.logging_policy, problem.target_policy
    if target is None or problem.propensity is None:
        return None
    wanted = target.probability(problem.context, problem.action)
    logged = np.log(wanted) - np.log(problem.propensity)
    if logging is None or not problem.has_target_sample:
        return _TrueRatio(logged, None)
    pair = problem.target_sample[:2]
    return _TrueRatio(
        logged, lambda: np.log(target.probability(*pair)) - np.log(logging.probability(*pair))
    )


def _on_embeddings(problem: Problem) -> _TrueRatio | None:
    logging, target = problem.logging_policy, problem.target_policy
    embed = problem.embedding_distribution
    if logging is None or target is None or embed is None or not problem.has_target_sample:
        return None
    target_context, target_action, target_embedding = problem.target_sample
    rows = len(problem.reward) + len(target_action)
    if (problem.n_actions or 1) * rows > MOST_ENTRIES:
        return None

    def ratio(context: FloatArray, embedding: FloatArray) -> FloatArray:
        wanted = np.log(embed.marginal(target, context, embedding))
        return np.asarray(wanted - np.log(embed.marginal(logging, context, embedding)))

    return _TrueRatio(
        ratio(problem.context, problem.embedding), partial(ratio, target_context, target_embedding)
    )


def _facts(
    problem: Problem, estimate: Estimate, weights: FloatArray, truth: _TrueRatio
) -> dict[str, float]:
    log_weights = np.log(weights)
    true_weights = np.exp(truth.logged)
    reward, n = problem.reward, len(weights)
    facts = {
        "log_ratio_rmse": _root_mean_square(log_weights - truth.logged),
        "true_mean_weight": float(true_weights.mean()),
        "weight_bias": float((reward * (weights - true_weights)).mean()),
        "weight_variance": float((reward * weights).var() / n),
    }
    at_target = estimate.target_weights
    if at_target is None or truth.target is None or at_target.shape != truth.target.shape:
        return facts
    log_at_target = np.log(at_target)
    facts["target_log_ratio_rmse"] = _root_mean_square(log_at_target - truth.target)
    facts["kl_estimate"] = float(log_at_target.mean())
    embed = problem.embedding_distribution
    facts["kl_true"] = float(truth.target.mean())
    if estimate.weight_space == "embedding" and isinstance(embed, KnownDivergence):
        facts["kl_true"] = embed.divergence()
    facts["kl_error"] = abs(facts["kl_estimate"] - facts["kl_true"])
    regret = 0.5 * _bernoulli_divergence(truth.logged, log_weights)
    regret += 0.5 * _bernoulli_divergence(truth.target, log_at_target)
    kappa = math.sqrt(max(0.0, regret))
    curvature = LOG_LOSS_CURVATURE
    facts["log_loss_regret"] = regret
    facts["bias_bound"] = 2.0 / math.sqrt(curvature) * kappa * float(np.abs(reward).mean())
    moments = [float((reward**2 * true_weights**power).mean()) for power in (2, 1, 0)]
    slopes = (1.0, 4.0 / math.sqrt(curvature) * kappa, 4.0 / curvature * kappa**2)
    facts["variance_bound"] = sum(a * b for a, b in zip(slopes, moments, strict=True)) / n
    return facts


def _bernoulli_divergence(true_odds: FloatArray, odds: FloatArray) -> float:
    """Return the mean KL between Bernoulli variables with these log-odds."""
    # log η - log η̂ and log(1 - η) - log(1 - η̂), in a form that loses no precision.
    up = np.logaddexp(0.0, -odds) - np.logaddexp(0.0, -true_odds)
    down = np.logaddexp(0.0, odds) - np.logaddexp(0.0, true_odds)
    eta = 1.0 / (1.0 + np.exp(-true_odds))
    # Where η is 0 or 1, the other side has no mass, so its term is zero.
    kl = np.where(eta > 0, eta * up, 0.0) + np.where(eta < 1, (1.0 - eta) * down, 0.0)
    return float(kl.mean())


def _root_mean_square(errors: FloatArray) -> float:
    """Return the root mean square of the finite values; NaN without any."""
    finite = errors[np.isfinite(errors)]
    return math.sqrt(float(np.square(finite).mean())) if len(finite) else math.nan


# Balance of weighted logs with the target sample, before and after weighting.

FREQUENCIES = 64
"""Random frequencies of the kernel distance; the same for all data with equally many columns."""

MOST_FEATURES = 10_000_000
"""Rows times columns and features above which no balance is computed."""


VECTOR = 16
"""Columns beyond the last whole vector are summed in another order, which moves last digits."""


@dataclass(frozen=True, eq=False)
class _Sides:
    """Columns and kernel features of the logs, and their means over the target sample.

    Parameters
    ----------
    logged : (n, d), standardized columns; zeros follow, so that d is a multiple of `VECTOR`.
    target : their means there.
    features : (n, 2 `FREQUENCIES`), in single precision.
    target_features : (2 `FREQUENCIES`,), their means there.
    """

    logged: FloatArray
    target: FloatArray
    features: NDArray[np.float32]
    target_features: FloatArray

    @cached_property
    def before(self) -> tuple[float, float]:
        """The distances without weights."""
        n = len(self.logged)
        return self.distances(np.full(n, 1.0 / n))

    def distances(self, share: FloatArray) -> tuple[float, float]:
        """Return the largest mean difference and the kernel distance for shares (n,)."""
        gap = share @ self.logged - self.target
        kernel = share.astype(np.float32) @ self.features - self.target_features
        return float(np.abs(gap).max()), float(np.linalg.norm(kernel)) / math.sqrt(FREQUENCIES)


_SIDES: weakref.WeakKeyDictionary[Problem, _Sides | None] = weakref.WeakKeyDictionary()


def weight_balance(problem: Problem, estimate: Estimate) -> dict[str, float]:
    """Compare the logs with the target sample; empty without weights or a target sample.

    ``smd_before``, ``smd_after``
        largest absolute standardized mean difference over the columns of context and embedding,

            |Σ w c / Σ w - mean_target c| / sqrt((var_logged c + var_target c) / 2)

        with all w equal, and with the estimate's weights. Categories count as one column each;
        the variances are those without weights in both, so that a change is one of the means.
    ``mmd_before``, ``mmd_after``
        kernel distance of (context, embedding), sqrt(Σ_ij u_i u_j k(z_i, z_j)) with u the shares
        of the logs and minus those of the target sample, z the standardized columns and
        k(z, z') = exp(-|z - z'|² / (2d)), by the same `FREQUENCIES` random frequencies for all:
        "Random Features for Large-Scale Kernel Machines" (Rahimi and Recht, 2007), Algorithm 1.

    The target sample is finite, so exact weights do not reach 0. Nothing is said where a column is
    constant in each sample but not the same: no weights balance it.
    """
    weights, space = estimate.weights, estimate.weight_space
    if weights is None or space is None or weights.shape != problem.reward.shape:
        return {}
    largest = float(weights.max())
    if not (problem.has_target_sample and largest > 0 and math.isfinite(largest)):
        return {}
    # The sum of the weights themselves may overflow.
    share = weights / largest
    total = float(share.sum())
    if total <= 0:
        return {}
    with np.errstate(all="ignore"):
        if problem not in _SIDES:
            _SIDES[problem] = _sides(problem)
        sides = _SIDES[problem]
        if sides is None:
            return {}
        smd, mmd = sides.distances(share / total)
        smd_logs, mmd_logs = sides.before
    facts = {"smd_before": smd_logs, "smd_after": smd, "mmd_before": mmd_logs, "mmd_after": mmd}
    return {name: value for name, value in facts.items() if math.isfinite(value)}


def _sides(problem: Problem) -> _Sides | None:
    """Prepare both samples; None where they are too large, or no column can be compared."""
    schema = problem.schema
    assert schema is not None  # noqa: S101  set by the problem itself
    columns = (*schema.context, *schema.embedding)
    width = sum(max(1, len(column.categories)) for column in columns)
    n, m = len(problem.reward), len(problem.target_sample[0])
    if not columns or (n + m) * (width + 2 * FREQUENCIES) > MOST_FEATURES:
        return None
    context, _, embedding = problem.target_sample
    logged = _indicators([*problem.context.T, *problem.embedding.T], columns)
    target = _indicators([*context.T, *embedding.T], columns)
    varies = _vary(logged) | _vary(target)
    if not varies.any() or (logged[:, 0] != target[:, 0])[~varies].any():
        return None
    if not varies.all():
        logged, target = logged[varies], target[varies]
    d, center = len(logged), target.mean(axis=1, keepdims=True)
    variance = logged.var(axis=1, keepdims=True) + target.var(axis=1, keepdims=True)
    scale = np.sqrt(variance / 2)
    for side in (logged, target):
        side -= center
        side /= scale
    features = np.empty((n, 2 * FREQUENCIES), np.float32)
    for part in row_chunks(n, 2 * FREQUENCIES):
        _features(logged[:, part], features[part])
    there = np.zeros(2 * FREQUENCIES)
    for part in row_chunks(m, 2 * FREQUENCIES):
        rows = target[:, part]
        some = _features(rows, np.empty((rows.shape[1], 2 * FREQUENCIES), np.float32))
        # A product sums the few rows faster than a reduction.
        there += np.ones(len(some), np.float32) @ some
    padded = np.zeros((n, d + -d % VECTOR))
    padded[:, :d] = logged.T
    means = np.zeros(padded.shape[1])
    means[:d] = target.mean(axis=1)
    return _Sides(padded, means, features, there / m)


def _vary(values: FloatArray) -> BoolArray:
    """Return whether each column, a row here, has more than one value: (d,)."""
    # The first values mostly tell.
    few: BoolArray = (values[:, :VECTOR] != values[:, :1]).any(axis=1)
    return few if few.all() else (values != values[:, :1]).any(axis=1)


def _indicators(values: Sequence[FloatArray], columns: tuple[Column, ...]) -> FloatArray:
    """Replace categorical columns by an indicator of each category; columns as rows: (d, n)."""
    return np.vstack(
        [
            np.equal.outer(column.categories, each)
            if column.kind == "categorical"
            else each[None, :]
            for each, column in zip(values, columns, strict=True)
        ],
        dtype=np.float64,
        casting="unsafe",
    )


STEPS = 1 << 14
"""Angles at which cosines and sines are known: the kernel distance moves by less than 1e-4."""

_ROUNDING = np.float32(3 << 22)
"""Added to a number in single precision, it leaves the nearest integer in the last bits."""


@cache
def _frequencies(d: int, k: int) -> NDArray[np.float32]:
    """Return k frequencies for data with d columns, in steps: (d, k)."""
    drawn = np.random.default_rng(d).normal(scale=1 / math.sqrt(d), size=(d, k))
    return (drawn * (STEPS / (2 * math.pi))).astype(np.float32)


@cache
def _circle() -> NDArray[np.complex64]:
    """Return cosine and sine of each angle: (`STEPS`,)."""
    points = np.exp(2j * np.pi * np.arange(STEPS) / STEPS)
    return np.asarray(points, dtype=np.complex64)


def _features(columns: FloatArray, out: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return cosines and sines, (n, 2k): inner products over k approximate the kernel.

    Those of the nearest step: to look one up takes half the time of computing it.
    """
    angle = columns.T.astype(np.float32) @ _frequencies(len(columns), FREQUENCIES)
    angle += _ROUNDING
    step = angle.view(np.int32)
    step &= STEPS - 1
    np.take(_circle(), step, out=out.view(np.complex64), mode="clip")
    return out
