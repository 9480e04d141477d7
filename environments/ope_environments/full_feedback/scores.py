"""Scores of every action in every row: from wide or long tables, or generated."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from ope_bench import (
    DataFileError,
    FloatArray,
    IntArray,
    ParameterError,
    Table,
    read_table,
    stream,
)

__all__ = ["ScoreColumns", "ScoreTable", "generated", "read_scores"]


@dataclass(frozen=True)
class ScoreColumns:
    """The roles of the table's columns.

    Parameters
    ----------
    context : numbers or words that describe a row.
    scores : wide tables: one column of scores for each action. Empty for long tables.
    costs : wide tables: one column of costs for each action, in the order of ``scores``.
    row, action, score, cost : long tables: one line for each row and action; ``cost`` may be None.
    vector : a column of lists of numbers, which are context too; None for none.
    """

    context: tuple[str, ...]
    scores: tuple[str, ...]
    costs: tuple[str, ...]
    row: str
    action: str
    score: str
    cost: str | None
    vector: str | None

    def __post_init__(self) -> None:
        if self.costs and len(self.costs) != len(self.scores):
            msg = (
                f"full-feedback: {len(self.costs)} columns of 'costs' for {len(self.scores)} of "
                "'scores'; give one each, in the same order"
            )
            raise ParameterError(msg)
        if not self.context and self.vector is None:
            msg = "full-feedback: name columns of 'context', or a 'vector' of numbers"
            raise ParameterError(msg)


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """Scores of all actions.

    Parameters
    ----------
    context : (n, d_context), categories as indicators.
    actions : their names.
    score : (n, n_actions)
    cost : (n, n_actions), 0 where the table has none.
    """

    context: FloatArray
    actions: tuple[str, ...]
    score: FloatArray
    cost: FloatArray


def read_scores(path: str, columns: ScoreColumns) -> ScoreTable:
    """Read a table.

    Raises
    ------
    UnavailableError : there is no such file.
    DataFileError : a column is missing, a value is wrong, a row lacks the score of an action.
    """
    file = Path(path)
    state = (file.stat().st_mtime_ns, file.stat().st_size) if file.is_file() else None
    return _read(file, columns, state)


@lru_cache(maxsize=2)
def _read(path: Path, columns: ScoreColumns, _state: object) -> ScoreTable:
    described = [*columns.context, *([columns.vector] if columns.vector else [])]
    if columns.scores:
        table = read_table(path, [*columns.scores, *columns.costs, *described])
        score = np.stack([table.numbers(name) for name in columns.scores], axis=1)
        cost = np.zeros_like(score)
        if columns.costs:
            cost = np.stack([table.numbers(name) for name in columns.costs], axis=1)
        first, actions = np.arange(table.n), columns.scores
    else:
        numbers = [columns.score] + ([columns.cost] if columns.cost else [])
        named = [columns.row, columns.action]
        table = read_table(path, [*numbers, *named, *described], spelled=named)
        first, actions, place = _pairs(table, columns)
        score, cost = np.zeros((2, len(first), len(actions)))
        score[place] = table.numbers(columns.score)
        if columns.cost:
            cost[place] = table.numbers(columns.cost)
    if len(actions) < 2:
        raise DataFileError(path, f"has scores of one action only, {actions[0]!r}")
    parts = [_numbers_of(table, name)[first] for name in columns.context]
    if columns.vector is not None:
        parts.append(table.column(columns.vector).vectors()[first])
    return ScoreTable(np.concatenate(parts, axis=1), tuple(actions), score, cost)


def _pairs(
    table: Table, columns: ScoreColumns
) -> tuple[IntArray, tuple[str, ...], tuple[IntArray, IntArray]]:
    """Return each row's first line, the actions, and the row and action of each line."""
    row, rows, first = _in_order(table, columns.row)
    action, actions, _ = _in_order(table, columns.action)
    count = np.zeros((len(rows), len(actions)), dtype=np.int64)
    np.add.at(count, (row, action), 1)
    if (count > 1).any():
        twice = count[row, action] > 1
        line = int(np.flatnonzero(twice)[-1])
        what = f"row {rows[row[line]]!r} has {actions[action[line]]!r} twice"
        table.raise_error(line, columns.action, what)
    if (count == 0).any():
        at, missing = np.argwhere(count == 0)[0]
        what = f"row {rows[at]!r} has no score of {actions[missing]!r}; every row needs all"
        table.raise_error(int(first[at]), columns.action, what)
    return first, tuple(actions), (row, action)


def _in_order(table: Table, name: str) -> tuple[IntArray, list[str], IntArray]:
    """Return codes of words in the order of their first lines, the words, and those lines."""
    code, words = table.codes(name)
    first = np.unique(code, return_index=True)[1]
    order = np.argsort(first)
    return np.argsort(order)[code], [words[k] for k in order], first[order]


def _numbers_of(table: Table, name: str) -> FloatArray:
    """Return a column of numbers, or indicators of its words: (n, k)."""
    column = table.column(name)
    column.require_values()
    if column.is_number:
        return column.numbers()[:, None]
    code, words = column.codes()
    return np.eye(len(words))[code]


@lru_cache(maxsize=1)
def generated() -> ScoreTable:
    """Return invented scores in the layout of prompts by language models: 4,000 by 12.

    A prompt has a topic, a length and an embedding of 16 numbers; a model is large or small and
    good at some topics. Larger models answer better and cost more. A score is 1 for a right
    answer, else 0.
    """
    rng = stream("full-feedback", "invented prompts by models")
    n, models, width = 4000, 12, 16
    topics = rng.standard_normal((6, width))
    topic = rng.integers(6, size=n)
    vector = topics[topic] + 0.7 * rng.standard_normal((n, width))
    difficulty = rng.standard_normal(n)
    size = np.linspace(-1.0, 1.5, models)
    taste = rng.standard_normal((models, width)) / np.sqrt(width)
    logit = 1.2 * size + vector @ taste.T - difficulty[:, None]
    score = (rng.random((n, models)) < 1 / (1 + np.exp(-logit))).astype(np.float64)
    tokens = np.exp(rng.normal(5.5, 0.6, n))
    cost = tokens[:, None] / 1000 * np.exp(size)
    names = tuple(f"model-{k + 1:02d}" for k in range(models))
    context = np.column_stack([np.log(tokens), vector])
    return ScoreTable(context, names, score, cost)
