"""Sweeps: settings that differ in one numeric parameter only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ope_bench.boards.board import Board
from ope_bench.canonical import canonical_json
from ope_bench.plugins.resolution import complete_params
from ope_bench.report.content import Setting

__all__ = ["Sweep", "sweeps"]


@dataclass(frozen=True)
class Sweep:
    """Settings along one parameter, everything else equal.

    Parameters
    ----------
    title : environment, parameter, and fixed parameters that distinguish the sweep.
    parameter : name of the parameter.
    at : (value, index of the setting), by value.
    """

    title: str
    parameter: str
    at: tuple[tuple[float, int], ...]


def sweeps(settings: Sequence[Setting]) -> list[Sweep]:
    """Return all sweeps of at least two values, the longest first."""
    lines: dict[tuple[str, str], list[tuple[float, int]]] = {}
    for index, setting in enumerate(settings):
        params = _params(setting.board)
        for name, value in params.items():
            if isinstance(value, bool) or not isinstance(value, int | float):
                continue
            rest = {key: other for key, other in params.items() if key != name}
            lines.setdefault((name, _frame(setting, rest)), []).append((float(value), index))
    found = []
    for (name, _), points in lines.items():
        if len({value for value, _ in points}) < 2:
            continue
        first = settings[points[0][1]]
        fixed = _fixed(first, name, [settings[i] for i in range(len(settings))])
        found.append(
            Sweep(f"{first.board.environment} by {name}{fixed}", name, tuple(sorted(points)))
        )
    return sorted(found, key=lambda one: -len(one.at))


def _frame(setting: Setting, rest: dict[str, object]) -> str:
    board = setting.board
    fixed = [board.environment, board.truth, board.worlds, board.environment_version]
    return canonical_json([*fixed, rest])


def _fixed(first: Setting, name: str, among: Sequence[Setting]) -> str:
    """Return the other varying parameters of this environment's settings, with their values."""
    board = first.board
    namesakes = [one.board for one in among if one.board.environment == board.environment]
    others = [_params(other) for other in namesakes]
    shown = [
        f"{key}={value}"
        for key, value in _params(board).items()
        if key != name and any(other.get(key) != value for other in others)
    ]
    if any(other.truth != board.truth for other in namesakes):
        shown.append(f"{board.truth} truth")
    return f" ({', '.join(shown)})" if shown else ""


def _params(board: Board) -> Mapping[str, Any]:
    """Return the environment's parameters, with added ones that keys omit."""
    return complete_params("environment", board.environment, board.environment_params)
