"""Sums over some actions of factors times a reward model, without a whole table."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ope_bench import DiscretePolicy, FloatArray, Policy, View, row_chunks
from ope_estimators.nuisance.reward import MANY_ROWS, FittedReward

__all__ = ["blended_expectations", "partial_expectation", "probability_table"]


def partial_expectation(
    reward: FittedReward,
    context: FloatArray,
    n_actions: int,
    factor: Callable[[FloatArray], FloatArray],
) -> tuple[FloatArray, FloatArray]:
    """Sum c(x, a) q̂(x, a) and c(x, a) over actions for each logged row: (n,), (n,).

    q̂ comes from models that were fitted without the row, and is evaluated only where c is not 0.

    Parameters
    ----------
    reward : q̂.
    context : (n, d_context), of the logged rows.
    n_actions : number of actions.
    factor : computes c of a chunk of contexts, (k, d_context) -> (k, n_actions).
    """
    total, mass = np.zeros(len(context)), np.zeros(len(context))
    for rows in row_chunks(len(context), n_actions):
        table = factor(context[rows])
        row, action = np.nonzero(table)
        value = table[row, action]
        size = len(table)
        if len(row):
            value = value * reward.pairs(context, row + rows.start, action)
        total[rows] = np.bincount(row, value, minlength=size)
        mass[rows] = table.sum(axis=1)
    return total, mass


def blended_expectations(
    reward: FittedReward,
    view: View,
    n_actions: int,
    share: Callable[[FloatArray, float], FloatArray],
    parameters: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return the sums over actions of π1 s(w) q̂, and the mean of those of π1 s(w): (k, n), (k,).

    q̂ comes from models that have not seen the row. The weight w of an action that the logging
    policy never takes is infinite.

    Parameters
    ----------
    reward : q̂.
    view : the logged contexts and both policies.
    n_actions : number of actions.
    share : s of weights and a parameter; it does not grow with the parameter.
    parameters : (k,)
    """
    values = np.zeros((len(parameters), view.n))
    mass = np.zeros(len(parameters))
    counts = view.row_weight
    for rows in row_chunks(view.n, n_actions):
        context = view.context[rows]
        logging = probability_table(view.logging_policy, context, n_actions)
        target = probability_table(view.target_policy, context, n_actions)
        weight = np.divide(target, logging, out=np.full_like(target, np.inf), where=logging > 0)
        row, action = np.nonzero(target * share(weight, float(parameters.min())))
        weight, target = weight[row, action], target[row, action]
        model = reward.pairs(view.context, row + rows.start, action) if len(row) else target
        for k in np.argsort(parameters):
            part = target * share(weight, float(parameters[k]))
            values[k, rows] = np.bincount(row, part * model, minlength=len(context))
            mass[k] += part.sum() if counts is None else part @ counts[rows][row]
            kept = part > 0
            if view.n >= MANY_ROWS and 2 * np.count_nonzero(kept) < len(kept):
                # What has no share at this parameter has none at larger ones.
                row, weight, target, model = row[kept], weight[kept], target[kept], model[kept]
    return values, mass / (view.n if counts is None else counts.sum())


def probability_table(policy: Policy, context: FloatArray, n_actions: int) -> FloatArray:
    """Return the probabilities of all actions in a chunk of contexts: (k, n_actions)."""
    if isinstance(policy, DiscretePolicy):
        return policy.table(context)
    pairs = np.repeat(context, n_actions, axis=0), np.tile(np.arange(n_actions), len(context))
    return policy.probability(*pairs).reshape(len(context), n_actions)
