"""Say in three sentences what boards show: who leads, who failed, what stayed unresolved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from ope_bench.boards.board import Board, Row
from ope_bench.report.text.formats import figure, percent
from ope_bench.trials.status import Status

__all__ = ["findings"]

MOST_NAMES = 4
"""Estimators that a sentence names; the others are counted."""


def findings(boards: Iterable[Board]) -> list[str]:
    """Describe boards by RMSE in three sentences.

    Only what the boards' own tests show is said: an estimator leads together with all estimators
    whose score does not differ significantly from the best.

    Parameters
    ----------
    boards : boards of one kind of truth, one for each setting; those not by RMSE are ignored.
    """
    shown = [board for board in boards if board.by == "rmse" and board.rows]
    if not shown:
        return []
    return [_leaders(shown), _failures(shown), _resolution(shown)]


def _leaders(boards: Sequence[Board]) -> str:
    first = Counter(row.label for board in boards for row in board.rows if row.rank == 1)
    if not first:
        return "No estimator has an estimate on half of the data sets or more."
    if len(boards) == 1:
        return _leader_of_one(boards[0])
    if len(first) == 1:
        (name,) = first
        tied = {
            row.label: None
            for board in boards
            for row in board.rows
            if _leads(row) and row.label != name
        }
        sentence = f"{name} has the smallest RMSE in all {len(boards)} settings"
        return f"{sentence}; {_names([*tied])} tie with it in some." if tied else f"{sentence}."
    places = [f"{name} in {count}" for name, count in first.most_common(MOST_NAMES)]
    others = len(first) - MOST_NAMES
    if others > 0:
        places.append(f"{others} other{'s' * (others != 1)} in the rest")
    sentence = f"Smallest RMSE: {_join(places)} of {len(boards)} settings"
    always = [
        name
        for name in first
        if all(any(row.label == name and _leads(row) for row in board.rows) for board in boards)
    ]
    if always:
        return f"{sentence}; among the best in every one: {_names(always)}."
    return f"{sentence}; no estimator is among the best in every one."


def _leader_of_one(board: Board) -> str:
    best = [row for row in board.rows if row.rank == 1]
    tied = [row.label for row in board.rows if row.tied and row.rank != 1]
    unclear = [row.label for row in board.rows if row.rank and row.rank > 1 and row.tied is None]
    verb = "has" if len(best) == 1 else "have"
    sentence = (
        f"{_names([row.label for row in best])} {verb} the smallest RMSE, {figure(best[0].score)}"
    )
    if tied:
        verb = "does" if len(tied) == 1 else "do"
        sentence += f"; {_names(tied)} {verb} not differ significantly"
    if unclear:
        sentence += f"; the comparison with {_names(unclear)} is open"
    compared = sum(row.rank is not None for row in board.rows) - len(best)
    if not compared and len(best) == 1:
        return f"Only {best[0].label} has an RMSE: {figure(best[0].score)}."
    if compared and not tied and not unclear:
        sentence += "; all others have a significantly larger one"
    return f"{sentence}."


def _leads(row: Row) -> bool:
    return row.rank == 1 or bool(row.tied)


def _failures(boards: Sequence[Board]) -> str:
    status: dict[str, Counter[str]] = {}
    for board in boards:
        for row in board.rows:
            status.setdefault(row.label, Counter()).update(row.status)
    parts = []
    failed = {name: share for name, counts in status.items() if (share := _failed(counts))}
    if failed:
        named = [
            f"{name} on {percent(share)} of its data sets ({', '.join(_reasons(status[name]))})"
            for name, share in sorted(failed.items(), key=lambda one: -one[1])
        ]
        parts.append(f"Failed: {_names(named)}")
    missing = [name for name, counts in status.items() if counts[Status.UNAVAILABLE]]
    if missing:
        somewhere = any(status[name].keys() - {Status.UNAVAILABLE} for name in missing)
        parts.append(
            f"{'not available in every setting' if somewhere else 'not available here'}: "
            f"{_names(missing)}"
        )
    if not failed:
        parts.insert(0, "No trial failed")
    return f"{'; '.join(parts)}."


def _failed(counts: Mapping[str, int]) -> float:
    tried = sum(counts.values()) - counts.get(Status.UNAVAILABLE, 0)
    return 1 - counts.get(Status.OK, 0) / tried if tried else 0.0


def _reasons(counts: Counter[str]) -> list[str]:
    usual = (Status.OK, Status.UNAVAILABLE)
    return [str(Status(word).value) for word, _ in counts.most_common() if word not in usual]


def _resolution(boards: Sequence[Board]) -> str:
    rows = [row for board in boards for row in board.rows if row.finite]
    counts = sorted({row.replicates for row in rows})
    if not counts:
        return "Nothing could be compared."
    n = "-".join(map(str, dict.fromkeys((counts[0], counts[-1]))))
    sentence = f"{n} replicate{'' if n == '1' else 's'} a setting"
    seen = [row.detectable for row in rows if row.detectable is not None]
    compared = sum(row.rank is not None and row.rank > 1 for row in rows)
    if seen:
        sentence += (
            f": a score {percent(median(seen))} above the best is found four times in five "
            f"(median of {len(seen)} comparison{'s' * (len(seen) != 1)})"
        )
    elif compared:
        sentence += " are too few to tell any two estimators apart"
    wild = sum(row.heavy_tailed for row in rows)
    if wild:
        sentence += (
            f"; in {wild} of {len(rows)} rows few data sets determine the RMSE: compare medians"
        )
    return f"{sentence}."


def _names(names: Sequence[str]) -> str:
    if len(names) <= MOST_NAMES:
        return _join(names)
    return _join([*names[: MOST_NAMES - 1], f"{len(names) - MOST_NAMES + 1} more"])


def _join(parts: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))
