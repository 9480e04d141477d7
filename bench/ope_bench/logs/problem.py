"""The evaluation problem of a log and one of its policies."""

from __future__ import annotations

import numpy as np

from ope_bench.contracts.arrays import FloatArray, IntArray
from ope_bench.contracts.data import Problem
from ope_bench.contracts.embeddings import DeterministicEmbedding
from ope_bench.contracts.policies import Policy
from ope_bench.contracts.schema import Column, Schema
from ope_bench.logs.policies.logged_context import LoggedContext
from ope_bench.logs.policies.row_policies import LoggedProbability, RowPolicy
from ope_bench.logs.reading.log_data import LogData
from ope_bench.logs.reading.targets import Target

__all__ = ["REASONS", "problem_of"]

MOST_ONE_HOT = 256
"""Most actions of a log without items that become indicators, one column each."""

REASONS = {
    "propensity": "the log has no propensities; add `propensity: COLUMN`",
    "logging_policy": "the logging policy is known for logged actions only; "
    "add `logging: {table: FILE}`",
    "items": "the log does not say what describes an action; "
    "add `items: {table: FILE, key: COLUMN}`",
}
"""Why data of any log may be missing, and the line that would give them."""

_NO_PROBABILITIES = {
    "action": "the target policy is known by its actions only; give `target: {table: FILE}`, "
    "`{policy: FILE.py:NAME}` or `{probability: COLUMN}`",
    "probability": "the target policy is known for logged actions only; give "
    "`target: {table: FILE}` or `{policy: FILE.py:NAME}`",
}
_NO_SAMPLE = (
    "there is no target sample; give `target: {action: COLUMN}`, `{table: FILE}` or "
    "`{policy: FILE.py:NAME}`"
)


def problem_of(log: LogData, name: str, rng: np.random.Generator) -> Problem:
    """Return the problem of evaluating a policy.

    Parameters
    ----------
    log : the log.
    name : of one of its policies.
    rng : draws the target sample where the policy's probabilities are known.
    """
    target = log.targets[name]
    context = LoggedContext.of(log.context)
    target_action = target.action
    if target.matrix is not None:
        target_action = RowPolicy(target.matrix, log.context).sample(context, rng)
    unavailable = {key: REASONS[key] for key in ("propensity", "logging_policy")}
    if target.matrix is None:
        unavailable["target_policy"] = _NO_PROBABILITIES[target.form]
    if target_action is None:
        unavailable |= {
            f"target_{part}": _NO_SAMPLE for part in ("context", "action", "embedding", "unit")
        }
    embedding, columns = _embedding(log)
    if embedding is None:
        unavailable |= dict.fromkeys(
            ("embedding", "target_embedding", "action_embedding"), REASONS["items"]
        )
        unavailable["embedding_distribution"] = REASONS["items"]
    described = np.zeros((len(log.actions), 0)) if embedding is None else embedding
    if log.propensity is not None:
        del unavailable["propensity"]
    logging: Policy | None = None
    if log.logging is not None:
        logging = RowPolicy(log.logging, log.context)
        del unavailable["logging_policy"]
    shared = target_action is not None
    problem = Problem(
        context=log.context,
        action=log.action,
        embedding=described[log.action],
        reward=log.reward,
        target_context=log.context if shared else None,
        target_action=target_action,
        target_embedding=None if target_action is None else described[target_action],
        n_actions=len(log.actions),
        schema=Schema(log.schema.context, columns),
        propensity=log.propensity,
        logging_policy=logging,
        target_policy=_policy(log, target),
        action_embedding=embedding,
        embedding_distribution=None if embedding is None else DeterministicEmbedding(embedding),
        shared_contexts=shared,
        unit=log.unit,
        reward_range=log.reward_range,
        unavailable=unavailable,
    )
    # Validation makes plain arrays; these know their rows.
    for part in ("context", "target_context"):
        if (array := getattr(problem, part)) is not None:
            object.__setattr__(problem, part, LoggedContext.of(array))
    return problem


def _policy(log: LogData, target: Target) -> Policy | None:
    if target.matrix is not None:
        return RowPolicy(target.matrix, log.context)
    if target.probability is None:
        return None
    return LoggedProbability(
        target.probability,
        log.context,
        log.action,
        len(log.actions),
        _NO_PROBABILITIES["probability"],
    )


def _embedding(log: LogData) -> tuple[FloatArray | None, tuple[Column, ...]]:
    """Return what describes each action: the items, or indicators of few actions."""
    if log.embedding is not None:
        return log.embedding, log.schema.embedding
    n = len(log.actions)
    if n > MOST_ONE_HOT:
        return None, ()
    return np.eye(n), (Column("categorical", (0.0, 1.0)),) * n


def unit_of(log: LogData) -> IntArray:
    """Return the unit of each row; the row itself where the log names none: (n,)."""
    return np.arange(log.n) if log.unit is None else log.unit
