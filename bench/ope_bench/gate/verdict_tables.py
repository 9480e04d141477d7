"""Verdicts as a table, Markdown, JSON, JUnit XML, and annotations of GitHub."""

from __future__ import annotations

import re
import shlex
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal

from ope_bench.boards.columns import Style
from ope_bench.gate.session import GateReport
from ope_bench.gate.track_changes import TrackChange, change_lines, changes_table
from ope_bench.gate.verdict import Judgement, Test, Verdict
from ope_bench.plugins.spec import distinct_labels
from ope_bench.report import tables
from ope_bench.report.tables import Cell, TableColumn, TextTable, figure

LOOKS: dict[Verdict, tuple[str, Style]] = {
    Verdict.WORSE: ("-", "bad"),
    Verdict.FAILED: ("x", "bad"),
    Verdict.MISSING: ("x", "bad"),
    Verdict.BETTER: ("+", "good"),
    Verdict.UNDECIDED: ("!", "caution"),
    Verdict.INCOMPARABLE: ("!", "caution"),
    Verdict.DRIFTED: ("~", "changed"),
    Verdict.SAME: ("=", "dim"),
}
"""The mark of each verdict in tables, and its style."""


def row_names(judgements: Sequence[Judgement]) -> list[str]:
    """Return ``setting / estimator`` of each row, with what tells namesakes apart."""
    rows = [one.row for one in judgements]
    environments = distinct_labels([row.environment for row in rows])
    estimators = distinct_labels([row.estimator for row in rows])
    return [
        f"{environment} / {estimator}" + ("" if row.device == "cpu" else f" ({row.device})")
        for environment, estimator, row in zip(environments, estimators, rows, strict=True)
    ]


def verdict_counts(judgements: Iterable[Judgement]) -> str:
    """Return the counts of verdicts, the worst first: ``2 worse, 58 same``."""
    counts = Counter(one.verdict for one in judgements)
    return ", ".join(f"{counts[word]} {word}" for word in Verdict if word in counts) or "no rows"


def detail(one: Judgement) -> str:
    """Return all that a verdict is based on, in one line."""
    parts = [one.reason] if one.reason else []
    if one.verdict is Verdict.UNDECIDED and one.ratio is not None:
        parts.append(
            "may be chance: too few replicates to show any change"
            if one.detectable is None
            else f"may be chance: smallest detectable change {_factor(1 + one.detectable)}"
        )
    if one.heavy_tailed:
        parts.append("heavy-tailed")
    if one.verdict in (Verdict.WORSE, Verdict.BETTER):
        p = one.p if one.verdict is Verdict.WORSE else one.p_better
        tests = []
        for test in one.found_by:
            grown = one.typical_ratio if test is Test.TYPICAL else None
            tests.append(test.value if grown is None else f"{test.value} ({_factor(grown)})")
        parts.append(f"by {' and '.join(tests)}; p {figure(p, 2)}")
    return "; ".join(parts)


def ratio_and_detail(one: Judgement) -> str:
    """Return the ratio of mean squares with its interval, and all that a verdict is based on."""
    between = _range(one)
    interval = "" if between == tables.MISSING else f" (95 %: {between})"
    ratio = "" if one.ratio is None else f"MSE {_factor(one.ratio)}{interval}"
    return "; ".join(part for part in (ratio, detail(one)) if part)


def _factor(ratio: float | None) -> str:
    return tables.MISSING if ratio is None else f"x{figure(ratio)}"


def _range(one: Judgement) -> str:
    if one.ratio_low is None or one.ratio_high is None:
        return tables.MISSING
    return f"{_factor(one.ratio_low)} to {_factor(one.ratio_high)}"


def verdict_lines(report: GateReport, ending: tuple[int, str], file: str, at: str) -> list[str]:
    """Return the verdict in four lines at most: what, how sure, why undecided, what to do next.

    Parameters
    ----------
    report : what the gate found.
    ending : exit code and reason.
    file : the baseline.
    at : the option that names the store; "" for the default one.
    """
    code, reason = ending
    accept = f'ope-bench baseline accept {shlex.quote(file)} --reason "..."{at}'
    counts = verdict_counts(report.judgements)
    lines = [f"verdict    exit code {code}: {reason} ({counts}; {report.trials_run})"]
    rows = list(zip(row_names(report.judgements), report.judgements, strict=True))
    failing = [row for row in rows if row[1].verdict.fails]
    open_rows = [row for row in rows if row[1].verdict is Verdict.UNDECIDED]
    for head, some in (("found", failing), ("undecided", open_rows)):
        if some:
            name, one = some[0]
            more = f" (and {len(some) - 1} more)" if len(some) > 1 else ""
            lines.append(f"{head:<11}{name}: {ratio_and_detail(one)}{more}")
    if failing:
        broken = next((one.broken for _, one in failing if one.broken), "")
        seen = f"`ope-bench rerun {broken}{at}` shows the failure; " if broken else ""
        lines.append(f"next       {seen}repair, or if the change is meant: {accept}")
    elif open_rows:
        lines.append(
            "next       a baseline with more replicates decides; if the change is meant: " + accept
        )
    elif any(one.verdict is not Verdict.SAME for _, one in rows):
        lines.append(f"next       {accept}")
    return lines


def verdict_table(judgements: Sequence[Judgement]) -> TextTable:
    """Make the table of the rows that changed."""
    rows = zip(row_names(judgements), judgements, strict=True)
    return TextTable(
        columns=(
            TableColumn(key="mark", title="", right=False, code=True),
            TableColumn(key="name", title="row", right=False, overflow="fold"),
            TableColumn(key="rmse_before", title="RMSE then"),
            TableColumn(key="rmse_after", title="now"),
            TableColumn(key="ratio", title="MSE"),
            TableColumn(key="interval", title="95 %"),
            TableColumn(key="verdict", title="verdict", right=False),
            TableColumn(key="detail", title="", right=False),
        ),
        rows=tuple(
            tables.cells(
                Cell(LOOKS[one.verdict][0], style=LOOKS[one.verdict][1]),
                *(name, figure(one.rmse_before), figure(one.rmse_after)),
                *(_factor(one.ratio), _range(one)),
                Cell(one.verdict.value, style=LOOKS[one.verdict][1]),
                detail(one),
            )
            for name, one in rows
            if one.verdict is not Verdict.SAME
        ),
    )


def text_table(
    judgements: Sequence[Judgement],
    tracks: Sequence[TrackChange] = (),
    *,
    width: int = 80,
    color: bool = False,
) -> str:
    """Return the rows that changed with details below their names, all counts, and tracks."""
    table = verdict_table(judgements)
    rows = []
    for mark, name, *rest, detail_ in table.rows:
        lines = [text for text in (name.text, detail_.text) if text]
        rows.append((mark, Cell("\n  ".join(lines)), *rest))
    changed = replace(table, columns=table.columns[:-1], rows=tuple(rows))
    counts = TextTable(title=verdict_counts(judgements), columns=(), rows=())
    shown = [changed, counts, *([changes_table(tracks)] if tracks else [])]
    return "".join(tables.render_text(one, width=width, color=color, whole=True) for one in shown)


def judgements_json(judgements: Sequence[Judgement]) -> list[dict[str, Any]]:
    """Return all rows as plain JSON."""
    return [
        judgement_json(name, one)
        for name, one in zip(row_names(judgements), judgements, strict=True)
    ]


def judgement_json(name: str, one: Judgement) -> dict[str, Any]:
    """Return one row as plain JSON."""
    row = one.row
    figures = {key: value for key, value in vars(one).items() if key not in ("row", "verdict")}
    return {
        "name": name,
        "mark": LOOKS[one.verdict][0],
        "verdict": one.verdict.value,
        "environment": row.environment.id,
        "environment_params": dict(row.environment.params),
        "estimator": row.estimator.id,
        "label": row.estimator.label or row.estimator.id,
        "params": dict(row.estimator.params),
        "device": row.device,
        **figures,
    }


def markdown_table(
    judgements: Sequence[Judgement],
    title: str,
    trials_run: str = "",
    tracks: Sequence[TrackChange] = (),
) -> str:
    """Return a heading, the changed rows, counts and tracks, for a job summary or a comment."""
    counts = f"**{verdict_counts(judgements)}**" + (f"; {trials_run}" if trials_run else "")
    lines = [f"### {tables.prose(title)}", "", counts, ""]
    shown = [verdict_table(judgements), *([changes_table(tracks)] if tracks else [])]
    return "\n".join(lines) + "\n" + "\n".join(map(tables.render_markdown, shown)).rstrip() + "\n"


def github_lines(report: GateReport, baseline: str, ending: tuple[int, str]) -> str:
    """Return workflow commands: an annotation for each row that changed.

    Parameters
    ----------
    report : what the gate found.
    baseline : the file that the annotations point at.
    ending : exit code and reason.
    """
    levels = {"bad": "error", "caution": "warning", "good": "notice"}
    lines = []
    for name, one in zip(row_names(report.judgements), report.judgements, strict=True):
        if one.verdict is not Verdict.SAME:
            level = levels.get(LOOKS[one.verdict][1], "notice")
            title = _property(f"ope-bench gate: {one.verdict}")
            place = f"file={_property(baseline)},title={title}"
            lines.append(f"::{level} {place}::{_message(f'{name}: {ratio_and_detail(one)}')}")
    code, reason = ending
    if code and not any(line.startswith("::error") for line in lines):
        lines.append(github_line("error", reason))
    lines += [github_line("warning", notice) for notice in report.notices]
    lines += [github_line("notice", told) for told in change_lines(report.tracks)]
    # Reused outcomes say nothing of what no code digest sees.
    lines.append(github_line("warning" if report.reused else "notice", report.trials_run))
    return "".join(f"{line}\n" for line in lines)


def github_line(level: str, message: str) -> str:
    """Return one workflow command that stands for the whole gate."""
    return f"::{level} title=ope-bench gate::{_message(message)}"


def _message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")


_FORBIDDEN = re.compile("[^ -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""All but the characters of XML 1.0; tabs and ends of lines as well: a message is one line."""


def junit(report: GateReport, suite: str, ending: tuple[int, str]) -> str:
    """Return one test case for each row.

    JUnit has no warnings: an undecided or incomparable row passes, its verdict is in its name, and
    the reason on its standard error.

    Parameters
    ----------
    report : what the gate found.
    suite : its name.
    ending : exit code and reason; a gate that closes though no row fails has a case for that.
    """
    cases = []
    for name, one in zip(row_names(report.judgements), report.judgements, strict=True):
        environment, _, estimator = name.partition(" / ")
        message = f"{one.verdict}: {ratio_and_detail(one)}".removesuffix(": ")
        outcome = "failure" if one.verdict.fails else "system-out"
        if one.verdict in (Verdict.UNDECIDED, Verdict.INCOMPARABLE):
            outcome, message = "system-err", f"warning: {message}"
            estimator += f" ({one.verdict})"
        cases.append(_case(environment, estimator, outcome, message))
    code, reason = ending
    if code and not any(one.verdict.fails for one in report.judgements):
        cases.append(_case("gate", "complete", "failure", reason))
    return _suite(suite, cases, report.trials_run)


def junit_of_nothing(suite: str, reason: str, kind: Literal["error", "skipped"]) -> str:
    """Return the one test case of a gate that compared nothing."""
    return _suite(suite, [_case("gate", "complete", kind, reason)])


def _case(owner: str, name: str, outcome: str, message: str) -> ET.Element:
    case = ET.Element("testcase", classname=_xml(owner), name=_xml(name))
    element = ET.SubElement(case, outcome)
    if outcome.startswith("system"):
        element.text = _xml(message)
    else:
        element.set("message", _xml(message))
    return case


def _suite(name: str, cases: list[ET.Element], output: str = "") -> str:
    suite = ET.Element("testsuite", name=_xml(f"ope-bench gate: {name}"), tests=str(len(cases)))
    for attribute, outcome in (("failures", "failure"), ("errors", "error"), ("skipped",) * 2):
        suite.set(attribute, str(sum(case.find(outcome) is not None for case in cases)))
    suite.extend(cases)
    if output:
        ET.SubElement(suite, "system-out").text = _xml(output)
    ET.indent(suite)
    body = ET.tostring(suite, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'


def _xml(text: str) -> str:
    """Blank the characters that XML forbids, which ElementTree would write."""
    return _FORBIDDEN.sub(" ", text)
