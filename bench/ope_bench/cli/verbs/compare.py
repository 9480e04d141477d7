"""``ope-bench compare``: two stores or baselines, trial by trial."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ope_bench.console.output import Format, document, note, use_color, width, write

if TYPE_CHECKING:
    from ope_bench.contracts.data import TruthKind
    from ope_bench.gate.verdict import Judgement
    from ope_bench.trials.record import TrialRecord

__all__ = ["command"]

LEVEL = 0.025
"""Level of either side: together 5 %, over all rows that differ."""


class CompareFormat(enum.StrEnum):
    """Output format of a comparison."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"


def command(
    a: Annotated[Path, typer.Argument(metavar="A", help="A store or a baseline: before.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="A store or a baseline: after.")],
    output: Annotated[CompareFormat, typer.Option("--format", help="Form of the comparison.")] = (
        CompareFormat.TEXT
    ),
) -> int:
    """Compare two stores or baselines: ratio, interval and verdict of every row.

    Trials are paired by key, so both sides saw the same data. The exit code does not depend on
    verdicts.
    """
    with document(Format.JSON if output is CompareFormat.JSON else Format.TEXT) as emit:
        found = _compared(a, b)
        emit(_as_json(a, b, found))
    if output is CompareFormat.JSON:
        return 0
    from ope_bench.report.text import verdicts

    title = f"{a} -> {b}: {found.pairs} trials in both"
    if output is CompareFormat.MARKDOWN:
        write(verdicts.markdown_table(found.judgements, title).rstrip())
    else:
        write(title)
        table = verdicts.text_table(found.judgements, width=width(), color=use_color())
        write(table.rstrip())
    if found.only_a or found.only_b:
        note(f"without a partner: {found.only_a} trials of {a}, {found.only_b} of {b}")
    return 0


@dataclass(frozen=True)
class _Comparison:
    judgements: Sequence[Judgement]
    pairs: int
    only_a: int
    only_b: int


def _compared(a: Path, b: Path) -> _Comparison:
    from ope_bench.errors import UsageError
    from ope_bench.gate.decision import judge
    from ope_bench.gate.pairing import pair_records
    from ope_bench.gate.verdict import Rules

    before, after = _side(a), _side(b)
    others = {record.key: record for records in after.values() for record in records}
    judgements: list[Judgement] = []
    known: set[str] = set()
    paired: set[str] = set()
    for truth, records in before.items():
        rows, _ = pair_records(records, others)
        rules = Rules(margin=0.0, level=LEVEL, symmetric=True)
        judgements += judge(rows, truth, rules)
        known |= {record.key for record in records}
        paired |= {pair.before.key for row in rows for pair in row.pairs}
    if not paired:
        msg = f"{a} and {b} have no trial in common: nothing can be compared"
        raise UsageError(msg)
    return _Comparison(
        judgements,
        len(paired),
        len(known - paired),
        len(others.keys() - paired),
    )


def _side(path: Path) -> dict[TruthKind, list[TrialRecord]]:
    """Return records by the kind of truth of their suites."""
    from ope_bench.gate.baseline import is_baseline, load
    from ope_bench.store import Store

    if is_baseline(path):
        baseline = load(path)
        return {baseline.suite.truth: list(baseline.records)}
    kinds: dict[TruthKind, list[TrialRecord]] = {}
    with Store.open(path) as store:
        for result in store.results():
            kinds.setdefault(result.run.truth, []).append(result.record)
    return kinds


def _as_json(a: Path, b: Path, found: _Comparison) -> dict[str, Any]:
    from ope_bench.report.text.verdicts import judgement_json, row_names

    names = row_names(found.judgements)
    return {
        "schema": 1,
        "a": str(a),
        "b": str(b),
        "pairs": found.pairs,
        "only_a": found.only_a,
        "only_b": found.only_b,
        "rows": [
            judgement_json(name, one) for name, one in zip(names, found.judgements, strict=True)
        ],
    }
