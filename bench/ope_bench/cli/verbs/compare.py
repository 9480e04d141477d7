"""``ope-bench compare``: two stores or baselines, trial by trial."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ope_bench.console.output import Format, document, note, use_color, width, write

if TYPE_CHECKING:
    from ope_bench.gate.comparison import Comparison

__all__ = ["command"]


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
    from ope_bench.gate.comparison import compare

    with document(Format.JSON if output is CompareFormat.JSON else Format.TEXT) as emit:
        found = compare(a, b)
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


def _as_json(a: Path, b: Path, found: Comparison) -> dict[str, Any]:
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
