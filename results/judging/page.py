"""The verdicts as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from judging.claim import Claim
from judging.evidence import Line, verdict

__all__ = ["LEGEND", "page"]

LEGEND = """\
The rule is mechanical. A line of evidence is *for* a claim (+) where the contrary is excluded,
*against* it (−) where the claim is, else undecided (?): ratios and slopes by tests at 5 % after
Holm's correction over the lines of a form, shares and biases by their 95 % intervals. All lines
for: **holds**. Some: **holds with conditions**; how many is in the next column. None for, some
against: **does not hold**. Where one of two methods fails, only data sets that both answer count.

Ratios are of RMSEs over the same data sets, with the interval of a studentised swap test; below 1
the first of the two errs less. Slopes are d log RMSE / d log of the parameter, with percentile
bootstrap intervals over data sets. Shares have Wilson's interval. † one data set carries over a
quarter of the squared errors: the test stands, an interval would not. ‡ the same for a slope,
whose interval is to be read with care.
"""

_MARK = {True: "+", False: "−", None: "?"}


def page(opening: str, claims: Sequence[Claim], expected: Sequence[Claim] | None = None) -> str:
    """The whole file.

    Parameters
    ----------
    opening : heading and what stands above the summary.
    claims : as judged.
    expected : the same claims, judged against the expected value; None: no such column.
    """
    rows = [
        [
            str(number),
            f"[{claim.title}](#claim-{number})",
            form,
            _word(claim, form),
            _count(claim.forms[form]),
            *([_word(expected[number - 1], form)] if expected else []),
        ]
        for number, claim in enumerate(claims, 1)
        for form in claim.forms
    ]
    heads = ["#", "claim", "form", "verdict", "lines for"]
    lines = ["---:", "---", "---", "---", "---:"]
    if expected:
        heads.append("against the expected value")
        lines.append("---")
    table = [heads, lines, *rows]
    summary = "\n".join(f"| {' | '.join(cells)} |" for cells in table)
    sections = "\n".join(_section(number, claim) for number, claim in enumerate(claims, 1))
    return f"{opening}\n{summary}\n\n{LEGEND}\n{sections}"


def _section(number: int, claim: Claim) -> str:
    parts = [f'## <a name="claim-{number}"></a>{number}. {claim.title}', f"*{claim.place}*"]
    for form in claim.forms:
        parts.append(f"{form[0].upper()}{form[1:]}: **{_word(claim, form)}**.")
        parts.append(_table(claim.forms[form]))
    if claim.unjudged:
        parts.append(f"Not judged: {claim.unjudged} what the tables show.")
    parts.append(claim.reading)
    if claim.aside:
        parts.append(f"Beside it, not judged:\n\n{_table(claim.aside, judged=False)}")
    if claim.figure:
        parts.append(f"![{claim.title}]({claim.figure})")
    return "\n\n".join(parts) + "\n"


def _table(lines: Sequence[Line], *, judged: bool = True) -> str:
    """A row for each comparison, a column for each setting; one table for each axis."""
    marks = [f" {_MARK[mark]}" for mark in verdict(lines)[1]] if judged else [""] * len(lines)
    axes: dict[str, list[tuple[Line, str]]] = {}
    for line, mark in zip(lines, marks, strict=True):
        axes.setdefault(line.where.partition(" = ")[0], []).append((line, mark))
    return "\n\n".join(_pivoted(axis, found) for axis, found in axes.items())


def _pivoted(axis: str, lines: Sequence[tuple[Line, str]]) -> str:
    columns = list(dict.fromkeys(line.where for line, _ in lines))
    rows: dict[str, dict[str, str]] = {}
    for line, mark in lines:
        rows.setdefault(line.what, {})[line.where] = line.number + mark
    heads = [column.removeprefix(f"{axis} = ") for column in columns]
    first = axis if heads != columns else ""
    return "\n".join(
        (
            f"| {' | '.join((first, *heads))} |",
            f"| --- |{' ---: |' * len(heads)}",
            *(
                f"| {what} | {' | '.join(cells.get(column, '') for column in columns)} |"
                for what, cells in rows.items()
            ),
        )
    )


def _word(claim: Claim, form: str) -> str:
    word = verdict(claim.forms[form])[0]
    return f"cannot be judged (on surrogate data: {word})" if claim.unjudged else word


def _count(lines: Sequence[Line]) -> str:
    marks = verdict(lines)[1]
    return f"{marks.count(True)} of {len(marks)}"
