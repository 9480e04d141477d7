"""Models of the logging policy, fitted to logged decisions."""

from __future__ import annotations

import numpy as np

from ope_bench import FloatArray, Score, Softmax, row_chunks
from ope_environments.logs.decisions import LoggedDecisions
from ope_environments.populations.design import Design

__all__ = ["fit_logging"]

SHARPEST, BLUNTEST = 5.0, 0.2
"""Range of the inverse temperature that matches the logged propensities."""


def fit_logging(data: LoggedDecisions, design: Design, *, by_context: bool) -> Softmax:
    """Fit a multinomial logistic regression, or the actions' shares in every context.

    Where propensities are logged, an inverse temperature is fitted too, such that the model's
    propensities match the logged ones (least squares in logarithms). Actions that were never
    logged have probability zero.
    """
    n_actions = len(data.actions)
    # One action in all rows leaves nothing to be fitted.
    by_context = by_context and bool((data.action != data.action[0]).any())
    logits = _logistic(data, design) if by_context else _shares(data)
    beta = 1.0 if data.propensity is None else _sharpness(data, logits, data.propensity)
    policy = Softmax(logits, n_actions, beta)
    policy.full_support = len(np.unique(data.action)) == n_actions
    return policy


def _logistic(data: LoggedDecisions, design: Design) -> Score:
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(max_iter=5000).fit(design(data.context), data.action)
    weights, intercept = model.coef_, model.intercept_
    if len(model.classes_) == 2:
        # scikit-learn has one row for two classes.
        weights = np.stack([np.zeros_like(weights[0]), weights[0]])
        intercept = np.array([0.0, intercept[0]])
    seen, n_actions = model.classes_, len(data.actions)

    def logits(context: FloatArray) -> FloatArray:
        scores: FloatArray = design(context) @ weights.T + intercept
        if len(seen) == n_actions:
            return scores
        whole = np.full((len(scores), n_actions), -np.inf)
        whole[:, seen] = scores
        return whole

    return logits


def _shares(data: LoggedDecisions) -> Score:
    counts = np.bincount(data.action, minlength=len(data.actions))
    with np.errstate(divide="ignore"):
        log_share = np.log(counts / counts.sum())

    def logits(context: FloatArray) -> FloatArray:
        return np.tile(log_share, (len(context), 1))

    return logits


def _sharpness(data: LoggedDecisions, logits: Score, propensity: FloatArray) -> float:
    """Find the inverse temperature that minimizes the squared error of log propensities."""
    wanted = np.log(propensity)

    def loss(beta: float) -> float:
        total = 0.0
        for rows in row_chunks(len(data.action), len(data.actions)):
            scaled = beta * logits(data.context[rows])
            scaled -= scaled.max(axis=1, keepdims=True)
            mine = np.take_along_axis(scaled, data.action[rows, None], axis=1)[:, 0]
            said = mine - np.log(np.exp(scaled).sum(axis=1))
            total += float(((said - wanted[rows]) ** 2).sum())
        return total

    from scipy.optimize import minimize_scalar

    found = minimize_scalar(
        lambda log_beta: loss(float(np.exp(log_beta))),
        bounds=(np.log(BLUNTEST), np.log(SHARPEST)),
        method="bounded",
    )
    return float(np.exp(found.x))
