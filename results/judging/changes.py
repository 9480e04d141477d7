"""Former verdicts beside today's: results/CHANGES.md."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from judging.claim import Claim
from judging.line import verdict
from judging.page import word

__all__ = ["changes"]


def changes(opening: str, former: Path, pages: Sequence[tuple[str, str, Sequence[Claim]]]) -> str:
    """The whole file.

    Parameters
    ----------
    opening : heading and what stands above the tables.
    former : the verdicts of the pages before, as JSON: page -> number -> form -> verdict.
    pages : heading, key in ``former`` and claims of each page.
    """
    before = json.loads(former.read_text(encoding="utf-8"))
    parts = [opening]
    for heading, key, claims in pages:
        rows = [
            _row(number, claim, form, before[key].get(str(claim.former), {}))
            for number, claim in enumerate(claims, 1)
            for form in claim.forms
        ]
        head = [
            "| # | claim | form | before | now | why |",
            "| ---: | --- | --- | --- | --- | --- |",
        ]
        parts.append("\n".join([f"## {heading}\n", *head, *rows]) + "\n")
    return "\n".join(parts)


def _former(before: dict[str, str], form: str) -> str:
    """The former verdict; a form such as "corrected: answers" was part of "corrected"."""
    return before.get(form) or before.get(form.partition(":")[0]) or "new"


def _row(number: int, claim: Claim, form: str, before: dict[str, str]) -> str:
    found = verdict(claim.forms[form])
    now = f"**{word(claim, form)}**" + (f" ({found.counts})" if claim.forms[form] else "")
    cells = [str(number), claim.title, form, _former(before, form), now, claim.why]
    return f"| {' | '.join(cells)} |"
