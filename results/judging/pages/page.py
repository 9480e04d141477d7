"""Claims as a page of Markdown: what was found, a row a claim, and the figures folded."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from judging.claims.claim import Claim, Page
from judging.claims.line import Line, Verdict, marks, together, verdict
from judging.pages.forest import forest
from ope_bench.report.tables import markdown_lines

WORDS = 120
"""An abstract has at most so many words."""

_ORDER = (
    "holds", "holds where named", "mostly for", "split", "mostly against", "refuted", "undecided",
    "by construction", "not judged",
)  # fmt: skip


@cache
def _texts() -> dict[str, str]:
    text = Path(__file__).with_name("texts.yaml").read_text(encoding="utf-8")
    return dict(yaml.safe_load(text))


def opening(name: str, **facts: Any) -> str:
    """What opens a page or a section, from texts.yaml, with its braces filled in."""
    return _texts()[name].format(**facts)


def table(
    head: Sequence[str], rows: Iterable[Sequence[str]], align: str = "l", *, tight: bool = False
) -> str:
    """A Markdown table; a letter for each column, ``l`` or ``r``, the last one for all further."""
    sides = align + align[-1] * (len(head) - len(align))
    lines = markdown_lines(head, rows, (side == "r" for side in sides))
    if tight:
        lines = [line.replace("|  |", "| |") for line in lines]
        lines[1] = lines[1].replace(" ", "")
    return "\n".join(lines)


def page_texts(found: Page, path: Path, rule: Path) -> dict[Path, str]:
    """Return the page and its forest plots, by their paths.

    Parameters
    ----------
    found : the claims.
    path : of the page.
    rule : the page that states the rule.
    """
    texts: dict[Path, str] = {}
    sections = []
    for number, claim in enumerate(found.claims, 1):
        name = path.stem if path.stem != "README" else path.parent.name
        plot = f"figures/claim-{name}-{number:02d}.svg"
        drawn = forest(claim.claim, claim.forms)
        if drawn:
            texts[path.parent / plot] = drawn
        other = (found.beside or {}).get(number)
        sections.append(_section(number, claim, plot if drawn else None, other))
    legend = opening("legend of claims", link=os.path.relpath(rule, path.parent))
    parts = [found.heading, abstract(found.claims), found.opening.strip(), legend]
    parts += [_summary(found), *sections]
    texts[path] = "\n\n".join(parts) + "\n"
    return texts


def abstract(claims: Sequence[Claim]) -> str:
    """What was found, from the verdicts alone."""
    by_word: dict[str, list[str]] = {}
    for claim in claims:
        found = _overall(claim)
        bare = "not judged" if claim.but else found.bare
        if claim.without:
            bare = claim.without[0]
        sides = f" ({found.plus}:{found.minus})" if bare == "split" else ""
        by_word.setdefault(bare, []).append(f"{claim.short}{sides}")
    total = together(_overall(claim) for claim in claims if not claim.without)
    counts = (
        f"{len(claims)} claims; {total.plus} lines of evidence for them, {total.minus} against, "
        f"{total.undecided} undecided."
    )
    named = (
        f"**{word[0].upper()}{word[1:]}**: {'; '.join(by_word[word])}."
        for word in _ORDER
        if word in by_word
    )
    return " ".join((counts, *named))


def word(claim: Claim, found: Verdict) -> str:
    """The verdict that a claim's lines, or those of one form, amount to."""
    if claim.without:
        return claim.without[0]
    return f"not judged ({claim.but}: {found.word})" if claim.but else found.word


def _inside(lines: Iterable[Line], *, beyond: bool = False) -> list[Line]:
    return [line for line in lines if line.inside != beyond]


def _overall(claim: Claim, *, beyond: bool = False) -> Verdict:
    return together(verdict(_inside(lines, beyond=beyond)) for lines in claim.forms.values())


def _told(claim: Claim, found: Verdict) -> str:
    """A verdict with its counts; nothing where there is no evidence."""
    counted = found.plus + found.minus + found.undecided
    return f"{word(claim, found)} {found.counts}" if counted else ""


def _summary(found: Page) -> str:
    """A row for each claim; columns in which no claim has a cell are left out."""

    def cells(number: int, claim: Claim) -> dict[str, str]:
        whole = _overall(claim)
        row = {
            "#": str(number),
            "claim": f"[{claim.claim}](#claim-{number})",
            "source": claim.source,
            "verdict": f"**{word(claim, whole)}** {whole.counts}",
            **dict.fromkeys((*found.columns, "by form"), ""),
        }
        for form, lines in claim.forms.items():
            own = verdict(_inside(lines))
            told = own.counts if claim.but else _told(claim, own)
            if not told or len(claim.forms) == 1:
                continue
            column, _, rest = form.partition(": ")
            if column not in found.columns:
                column, rest = "by form", form
            said = f"{rest}: {told}" if rest else told
            row[column] = f"{row[column]}; {said}" if row[column] else said
        row["outside its assumptions"] = _told(claim, _overall(claim, beyond=True))
        other = (found.beside or {}).get(number)
        row["against V_s"] = _told(other, _overall(other)) if other else ""
        return row

    rows = [cells(number, claim) for number, claim in enumerate(found.claims, 1)]
    head = [name for name in rows[0] if any(row[name] for row in rows)]
    return table(head, ([row[name] for name in head] for row in rows))


def _section(number: int, claim: Claim, plot: str | None, other: Claim | None) -> str:
    parts = [f'## <a name="claim-{number}"></a>{number}. {claim.claim}']
    suites = ", ".join(f"`{folder}`" for folder in claim.data)
    said = [f"*{claim.source}*", suites, f"**{word(claim, _overall(claim))}**"]
    parts.append(". ".join(text for text in said if text) + ".")
    if claim.without:
        parts.append(f"{claim.without[0].capitalize()}: {claim.without[1]}")
    if plot:
        parts.append(f"![Ratios, slopes and shares of claim {number}]({plot})")
    parts.append(claim.reading)
    if claim.assumes:
        parts.append(f"Assumed: {claim.assumes}; where that does not hold is apart.")
    figures = "\n\n".join(_figures(claim, other))
    parts.append(f"<details><summary>Figures</summary>\n\n{figures}\n\n</details>")
    if claim.figure:
        parts.append(f"![{claim.claim}]({claim.figure})")
    return "\n\n".join(part for part in parts if part)


def _figures(claim: Claim, other: Claim | None) -> Iterable[str]:
    for (form, lines), beyond in itertools.product(claim.forms.items(), (False, True)):
        shown = _inside(lines, beyond=beyond)
        if not shown:
            continue
        found = verdict(shown)
        said = f"{form[0].upper()}{form[1:]}"
        said += ", outside the source's assumptions" if beyond else ""
        said += f": {_told(claim, found)}."
        if found.where and not claim.without:
            said += f" Where: {found.where}."
        if other:
            said += f" Against V_s: {_told(claim, verdict(other.forms[form]))}."
        yield f"{said}\n\n{_tables(shown, marks(shown))}"
    if claim.aside:
        yield f"Beside it, not judged:\n\n{_tables(claim.aside, [None] * len(claim.aside))}"


def _tables(lines: Sequence[Line], shown: Sequence[str | None]) -> str:
    """A row for each comparison, a column for each setting; one table for each axis."""
    axes: dict[str, list[tuple[Line, str]]] = {}
    for line, mark in zip(lines, shown, strict=True):
        text = "" if mark is None else f" ({mark})" if line.typical and mark != "?" else f" {mark}"
        axes.setdefault(line.where.partition(" = ")[0], []).append((line, text))
    return "\n\n".join(itertools.starmap(_pivot, axes.items()))


def _pivot(axis: str, lines: Sequence[tuple[Line, str]]) -> str:
    columns = list(dict.fromkeys(line.where for line, _ in lines))
    rows: dict[str, dict[str, str]] = {}
    for line, mark in lines:
        rows.setdefault(line.what, {})[line.where] = line.number + mark
    heads = [column.removeprefix(f"{axis} = ") for column in columns]
    first = axis if heads != columns else ""
    cells = ([what, *(row.get(column, "") for column in columns)] for what, row in rows.items())
    return table([first, *heads], cells, "lr")
