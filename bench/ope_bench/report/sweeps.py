"""Which settings differ in one number only, so that a figure can be drawn against it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ope_bench.report.content import Setting
from ope_bench.seeding import canonical_json

__all__ = ["Sweep", "sweeps"]


@dataclass(frozen=True)
class Sweep:
    """Settings along one parameter, everything else equal.

    Parameters
    ----------
    title : environment, parameter and what is fixed, as far as other sweeps differ in it.
    parameter : its name.
    at : (value, place of the setting), by value.
    """

    title: str
    parameter: str
    at: tuple[tuple[float, int], ...]


def sweeps(settings: Sequence[Setting]) -> list[Sweep]:
    """All sweeps of at least two values, the longest first."""
    lines: dict[tuple[str, str], list[tuple[float, int]]] = {}
    for index, setting in enumerate(settings):
        params = setting.board.environment_params
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
    """The other parameters in which settings of this environment differ, with their values."""
    board = first.board
    namesakes = [one.board for one in among if one.board.environment == board.environment]
    shown = [
        f"{key}={value}"
        for key, value in board.environment_params.items()
        if key != name and any(other.environment_params.get(key) != value for other in namesakes)
    ]
    if any(other.truth != board.truth for other in namesakes):
        shown.append(f"{board.truth} truth")
    return f" ({', '.join(shown)})" if shown else ""
