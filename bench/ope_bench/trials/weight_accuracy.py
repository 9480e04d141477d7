"""Accuracy of estimated weights against the true ratio, where the environment knows it.

The true ratio is π1(g|x) / π0(g|x) for weights on embeddings and π1(a|x) / π0(a|x) for weights on
actions. The harness computes it from the problem; estimators see neither the ratio nor these
facts.
"""

from __future__ import annotations

import math
import weakref
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from ope_bench.contracts.arrays import FloatArray
from ope_bench.contracts.data import Problem
from ope_bench.contracts.estimate import Estimate, WeightSpace

__all__ = ["KnownDivergence", "weight_accuracy"]

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
    target : (m,), None where unknown.
    """

    logged: FloatArray
    target: FloatArray | None


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
            truth = _true_ratio(problem, space)
            return {} if truth is None else _finite(_facts(problem, estimate, weights, truth))
    except Exception:  # a plugin's distribution may raise any exception; the trial remains valid
        return {}


def _true_ratio(problem: Problem, space: WeightSpace) -> _TrueRatio | None:
    known = _KNOWN.setdefault(problem, {})
    if space not in known:
        known[space] = _on_actions(problem) if space == "action" else _on_embeddings(problem)
    return known[space]


def _on_actions(problem: Problem) -> _TrueRatio | None:
    logging, target = problem.logging_policy, problem.target_policy
    if target is None or problem.propensity is None:
        return None
    wanted = target.probability(problem.context, problem.action)
    logged = np.log(wanted) - np.log(problem.propensity)
    if logging is None or not problem.has_target_sample:
        return _TrueRatio(logged, None)
    pair = problem.target_sample[:2]
    there = np.log(target.probability(*pair)) - np.log(logging.probability(*pair))
    return _TrueRatio(logged, there)


def _on_embeddings(problem: Problem) -> _TrueRatio | None:
    logging, target = problem.logging_policy, problem.target_policy
    embed = problem.embedding_distribution
    if logging is None or target is None or embed is None or not problem.has_target_sample:
        return None
    target_context, target_action, target_embedding = problem.target_sample
    rows = len(problem.reward) + len(target_action)
    if (problem.n_actions or 1) * rows > MOST_ENTRIES:
        return None
    logged, there = (
        np.log(embed.marginal(target, context, embedding))
        - np.log(embed.marginal(logging, context, embedding))
        for context, embedding in (
            (problem.context, problem.embedding),
            (target_context, target_embedding),
        )
    )
    return _TrueRatio(logged, there)


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
    if truth.target is None or at_target is None or at_target.shape != truth.target.shape:
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


def _finite(facts: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in facts.items() if math.isfinite(value)}
