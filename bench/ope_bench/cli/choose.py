"""``ope-bench choose``: which estimator to use, by what is known and what is wanted."""

from __future__ import annotations

import textwrap
import tomllib
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from ope_bench.base.console import Format, json_stdout, width, write
from ope_bench.base.errors import UsageError, did_you_mean
from ope_bench.base.exit_codes import CLEAN
from ope_bench.cli import options

KNOWLEDGE = {
    "p": "the probability with which each logged action was taken",
    "target": "the new policy's probability of any action",
    "logging": "the old policy's probability of any action",
    "embedding": "how features (embeddings) of an action are distributed",
}
"""Words of ``--known``."""


@dataclass(frozen=True)
class AdviceLine:
    """One line of advice: what is the case, what to use, and what must be known for it."""

    case: str
    use: str
    needs: tuple[str, ...] = ()
    goal: str | None = None


@dataclass(frozen=True)
class Question:
    """A question with its lines of advice."""

    title: str
    rows: tuple[AdviceLine, ...]


def questions() -> list[Question]:
    """Return the three questions of ``choose.toml``."""
    text = Path(__file__).with_name("choose.toml").read_text(encoding="utf-8")
    found = []
    for one in tomllib.loads(text)["questions"]:
        rows = [AdviceLine(**{**row, "needs": tuple(row.get("needs", ()))}) for row in one["rows"]]
        found.append(Question(one["title"], tuple(rows)))
    return found


def narrowed(known: frozenset[str] | None, goal: str | None) -> list[Question]:
    """Return the questions with the rows that fit.

    Parameters
    ----------
    known : words of `KNOWLEDGE`; None keeps the rows of any knowledge.
    goal : the goal whose rows of the last question are kept; None keeps all.
    """
    found = []
    for question in questions():
        rows = [row for row in question.rows if goal is None or row.goal in (None, goal)]
        fit = [row for row in rows if known is None or known.issuperset(row.needs)]
        if known is not None and not fit and any(row.goal for row in rows):
            # What is wanted needs more: an answer that says so, not none.
            lacks = {row: [one for one in row.needs if one not in known] for row in rows}
            fit = [
                replace(row, use=f"needs {' and '.join(lacks[row])}: {row.use}") for row in rows
            ]
        rows = fit
        if rows:
            found.append(Question(question.title, tuple(rows)))
    return found


def _words(text: str) -> frozenset[str]:
    """Read the words of ``--known``; `samples` stands for none of them."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    for word in words:
        if word not in {*KNOWLEDGE, "samples"}:
            listed = ", ".join([*KNOWLEDGE, "samples"])
            hint = did_you_mean(word, [*KNOWLEDGE, "samples"])
            msg = f"--known: '{word}' is not one of {listed}{hint}"
            raise UsageError(msg)
    # Whoever can compute any probability of the old policy has that of the logged action.
    return frozenset(words) - {"samples"} | ({"p"} if "logging" in words else set())


Goal = Literal["value", "interval", "compare", "confounding", "benchmark"]


def choose_command(
    known: Annotated[
        str | None,
        typer.Option(metavar="WORD,...", help=f"Of {', '.join(KNOWLEDGE)}; or samples: none."),
    ] = None,
    goal: Annotated[Goal | None, typer.Option(help="What you want to know.")] = None,
    output: options.FormatOption = Format.TEXT,
) -> int:
    """Say which estimator fits what you know and want.

    Prints three questions with five answers each; --known and --goal leave out what does not fit.
    It asks nothing and reads no log; `ope-bench advise` judges a log.
    """
    words = None if known is None else _words(known)
    with json_stdout(output) as emit:
        found = narrowed(words, goal)
        emit({"schema": 1, "questions": [asdict(question) for question in found]})
    if output is Format.TEXT:
        for line in lines_of(found, width()):
            write(line)
    return CLEAN


def lines_of(found: list[Question], columns: int) -> list[str]:
    """Format questions for a terminal."""
    room = min(columns, 100)
    lines = []
    for number, question in enumerate(found, start=1):
        lines += [f"{number}. {question.title}", ""]
        for row in question.rows:
            lines += textwrap.wrap(row.case, room, initial_indent="   ", subsequent_indent="   ")
            lines += textwrap.wrap(
                f"-> {row.use}".replace("`", ""),
                room,
                initial_indent="     ",
                subsequent_indent="        ",
                break_on_hyphens=False,
            )
        lines.append("")
    return [*lines, "ope-bench show ID prints formula, assumptions, and when an estimator fails."]
