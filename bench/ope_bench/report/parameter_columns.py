"""Columns of parameters: ``env_n_actions`` of the environment, ``est_clip`` of the estimator."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from ope_bench.boards.board import Board, Row
from ope_bench.boards.columns.column import BoardColumn
from ope_bench.canonical import canonical_json
from ope_bench.plugins.resolution import complete_params

__all__ = [
    "ENVIRONMENT",
    "ESTIMATOR",
    "environment_params",
    "parameter_column",
    "parameter_columns",
]

ENVIRONMENT, ESTIMATOR = "env_", "est_"
"""Prefixes of the keys."""


@cache
def _complete(kind: Any, name: str, params: str) -> dict[str, Any]:
    import json

    return complete_params(kind, name, json.loads(params))


def environment_params(board: Board) -> dict[str, Any]:
    """Return the parameters of a board's environment, with added ones that keys omit."""
    text = canonical_json(dict(board.environment_params))
    return _complete("environment", board.environment, text)


def _estimator_params(row: Row) -> dict[str, Any]:
    return _complete("estimator", row.estimator, canonical_json(dict(row.params)))


def parameter_column(key: str) -> BoardColumn | None:
    """Return the column of one parameter by its key, None for other keys."""
    prefix, name = key[: len(ENVIRONMENT)], key[len(ENVIRONMENT) :]
    if prefix not in (ENVIRONMENT, ESTIMATOR) or not name:
        return None
    of_board = prefix == ENVIRONMENT

    def value(subject: Any) -> Any:
        params = environment_params(subject) if of_board else _estimator_params(subject)
        found = params.get(name)
        return list(found) if isinstance(found, tuple) else found

    return BoardColumn(
        key=key.lower(),
        title=name.replace("_", " "),
        explanation=f"parameter of the {'environment' if of_board else 'estimator'}",
        value=value,
        format="json",
        drop=None,
        of_board=of_board,
    )


def parameter_columns(boards: Iterable[Board]) -> list[BoardColumn]:
    """Return a column for each parameter of the boards' environments and of their estimators."""
    kept = list(boards)
    keys = [f"{ENVIRONMENT}{name}" for board in kept for name in environment_params(board)]
    keys += [
        f"{ESTIMATOR}{name}"
        for board in kept
        for row in board.rows
        for name in _estimator_params(row)
    ]
    columns = (parameter_column(key) for key in dict.fromkeys(keys))
    return [column for column in columns if column is not None]
