"""Small logs of a user, in memory and as files."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ope_bench import Log, Problem, TargetPolicy
from ope_bench.testing.problems import problem

CONTEXT = ("x0", "x1", "x2")


def frame_of(given: Problem) -> dict[str, Any]:
    """The rows of a problem as columns, the target policy's probability of logged actions too."""
    frame: dict[str, Any] = {f"x{j}": given.context[:, j] for j in range(given.context.shape[1])}
    frame |= {"a": given.action, "r": given.reward, "p": given.propensity}
    frame["q"] = given.target_policy.probability(given.context, given.action)
    return frame


def items_of(given: Problem) -> dict[str, Any]:
    """The items of a problem as columns."""
    embedding = given.action_embedding
    columns = {f"e{j}": embedding[:, j] for j in range(embedding.shape[1])}
    return {"a": np.arange(len(embedding)), **columns}


def table_of(policy: Any, given: Problem) -> Any:
    """The probabilities of a policy in the logged contexts: (n, n_actions)."""
    return policy.table(given.context)


def log_of(given: Problem, **targets: TargetPolicy) -> Log:
    """A problem as a log; without targets the whole target policy is given."""
    frame = frame_of(given)
    whole = TargetPolicy(table=table_of(given.target_policy, given))
    return Log.from_frame(
        frame,
        context=[name for name in frame if name.startswith("x")],
        action="a",
        reward="r",
        propensity="p",
        items=items_of(given),
        logging=TargetPolicy(table=table_of(given.logging_policy, given)),
        target=targets or whole,
    )


def log_of_columns(columns: Mapping[str, Any], **given: Any) -> Log:
    """A log of the columns x (or x0), a, r and p, and of what else is given."""
    context = next(name for name in ("x", "x0") if name in columns)
    return Log.from_frame(
        columns, context=[context], action="a", reward="r", propensity="p", **given
    )


def discrete(n: int = 160, seed: int = 0) -> Problem:
    """Four actions, deterministic embeddings, softmax policies."""
    return problem("discrete actions", seed=seed, n=n)


def write_csv(path: Path, columns: Mapping[str, Sequence[Any]]) -> None:
    """Write columns; floats as their shortest exact text."""
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(columns)
        rows = zip(*(np.asarray(column).tolist() for column in columns.values()), strict=True)
        writer.writerows(rows)


LOG_FILE = """\
schema: 1
table: d.csv
context: [x0, x1]
action: a
reward: r
propensity: p
target: {probability: q}
"""


def write_small(folder: Path, **changes: Sequence[Any] | None) -> Path:
    """Write four decisions and their log file; changed or, with None, absent columns."""
    columns: dict[str, Sequence[Any] | None] = {
        "x0": [0.1, 0.2, 0.3, 0.4],
        "x1": [1, 2, 3, 4],
        "a": ["u", "v", "u", "w"],
        "r": [0, 1, 1, 0],
        "p": [0.5, 0.25, 0.5, 0.25],
        "q": [0.2, 0.6, 0.2, 0.2],
    }
    columns |= changes
    write_csv(folder / "d.csv", {k: v for k, v in columns.items() if v is not None})
    path = folder / "log.yaml"
    path.write_text(LOG_FILE)
    return path
