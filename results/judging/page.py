"""The verdicts as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from judging.claim import Claim
from judging.line import Line, Verdict, marks, verdict

__all__ = ["LEGEND", "page", "word"]

LEGEND = """\
The rule is mechanical. A line of evidence is *for* a claim (+) where the contrary is excluded,
*against* it (−) where the claim is, else undecided (?). From the three counts follows the verdict:

| + | − | ? | verdict |
| --- | --- | --- | --- |
| some | none | none | **holds** |
| some | none | some | **holds where named**: for what is spelled out |
| some | some | | **mixed** |
| none | some | | **refuted** |
| none | none | some | **undecided** |

**By construction** and **not judged** are said of claims that no trial can decide, with the
reason.

Ratios are of RMSEs over the same data sets, below 1 the first errs less; tested by a studentized
swap test, with its interval. Slopes are d log RMSE / d log of the parameter, tested by the
jackknife. Tests are at 5 % after Holm's correction over the lines of a form; shares and biases
are judged by their 95 % intervals, shares by Wilson's. If a claim says that one method errs less,
and the interval of the ratio lies above 0.95, then the difference is at most 5 %: that counts
against the claim. So does a slope within ±0.05, or one of the other sign.

† heavy tails: few data sets decide the RMSE, and with fewer than 100 of them no test of mean
squares holds. Then signed ranks of |error| decide, in parentheses, (+) or (−), and the claim is
about *typical* errors: who is nearer to the truth on most data sets. Where both tests decide, for
different sides, the line says nothing (?). A method that fails on more than half of the data sets
is listed, without a mark; else only data sets that both answer count. *One world*: its data sets
differ by sampling alone, so intervals and verdicts are about that world, not about worlds like it.
"""


def page(opening: str, claims: Sequence[Claim], beside: Sequence[Claim] | None = None) -> str:
    """The whole file.

    Parameters
    ----------
    opening : heading and what stands above the summary.
    claims : as judged, errors against the value.
    beside : the first of these claims, judged against V_s; None: no such column.
    """
    heads = ["#", "claim", "form", "verdict", "+", "−", "?"]
    rule = ["---:", "---", "---", "---", "---:", "---:", "---:"]
    if beside:
        heads.append("against V_s")
        rule.append("---")
    rows = [
        [*_summary(number, claim, form), *_beside(beside, number, form)]
        for number, claim in enumerate(claims, 1)
        for form in claim.forms
    ]
    summary = "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, rule, *rows))
    sections = "\n".join(_section(number, claim) for number, claim in enumerate(claims, 1))
    return f"{opening}\n{summary}\n\n{LEGEND}\n{sections}"


def word(claim: Claim, form: str) -> str:
    """The verdict of one form."""
    if claim.without:
        return claim.without[0]
    found = verdict(claim.forms[form]).word
    return f"not judged (on surrogate data: {found})" if claim.surrogate else found


def _summary(number: int, claim: Claim, form: str) -> list[str]:
    found = verdict(claim.forms[form])
    counts = [str(found.plus), str(found.minus), str(found.undecided)]
    title = f"[{claim.title}](#claim-{number})"
    return [str(number), title, form, f"**{word(claim, form)}**", *counts]


def _beside(claims: Sequence[Claim] | None, number: int, form: str) -> list[str]:
    """The cell of the verdict against V_s, if there is such a column."""
    if claims is None:
        return []
    if number > len(claims):
        return ["–"]
    claim = claims[number - 1]
    if claim.without:
        return [claim.without[0]]
    return [f"{word(claim, form)} ({verdict(claim.forms[form]).counts})"]


def _section(number: int, claim: Claim) -> str:
    parts = [f'## <a name="claim-{number}"></a>{number}. {claim.title}', f"*{claim.place}*"]
    if claim.without:
        parts.append(f"**{claim.without[0].capitalize()}**: {claim.without[1]}")
    for form, lines in claim.forms.items():
        if lines:
            heading = f"{form[0].upper()}{form[1:]}"
            parts.append(f"{heading}: {_sentence(claim, form, verdict(lines))}")
            parts.append(_table(lines))
    if claim.surrogate:
        parts.append(
            "The published data are not at hand: these are surrogate data of the published size, "
            "and the verdict is about them."
        )
    parts.append(claim.reading)
    if claim.aside:
        parts.append(f"Beside it, not judged:\n\n{_table(claim.aside, judged=False)}")
    if claim.figure:
        parts.append(f"![{claim.title}]({claim.figure})")
    return "\n\n".join(parts) + "\n"


def _sentence(claim: Claim, form: str, found: Verdict) -> str:
    said = f"**{word(claim, form)}**, {found.counts}."
    return f"{said} Where: {found.where}." if found.where and not claim.without else said


def _table(lines: Sequence[Line], *, judged: bool = True) -> str:
    """A row for each comparison, a column for each setting; one table for each axis."""
    shown = marks(lines) if judged else [None] * len(lines)
    axes: dict[str, list[tuple[Line, str]]] = {}
    for line, mark in zip(lines, shown, strict=True):
        text = "" if mark is None else f" ({mark})" if line.typical and mark != "?" else f" {mark}"
        axes.setdefault(line.where.partition(" = ")[0], []).append((line, text))
    return "\n\n".join(_pivot(axis, found) for axis, found in axes.items())


def _pivot(axis: str, lines: Sequence[tuple[Line, str]]) -> str:
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
