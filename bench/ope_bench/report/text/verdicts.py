"""What a gate or a comparison found: for a terminal, a reviewer, or a machine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from ope_bench.boards.columns.column import Style
from ope_bench.gate.session import GateReport
from ope_bench.gate.timing import TimeReport
from ope_bench.gate.verdict import Judgement, Verdict, Way
from ope_bench.plugins.labels import distinct_labels
from ope_bench.report.text.formats import figure, seconds
from ope_bench.report.text.renderers.markdown import prose, render_markdown
from ope_bench.report.text.renderers.terminal import render_text
from ope_bench.report.text.table import Cell, Table, TableColumn

__all__ = [
    "detail",
    "github_line",
    "github_lines",
    "judgement_json",
    "markdown_table",
    "percent_change",
    "row_names",
    "text_table",
    "time_json",
    "verdict_counts",
    "verdict_table",
]

STYLES: dict[Verdict, Style] = {
    Verdict.WORSE: "bad",
    Verdict.FAILED: "bad",
    Verdict.MISSING: "bad",
    Verdict.BETTER: "good",
    Verdict.UNDECIDED: "caution",
    Verdict.INCOMPARABLE: "caution",
    Verdict.DRIFTED: "changed",
    Verdict.INDISTINGUISHABLE: "dim",
    Verdict.SAME: "dim",
}


def row_names(judgements: Sequence[Judgement]) -> list[str]:
    """Return ``setting / estimator`` of each row, with what tells namesakes apart."""
    rows = [one.row for one in judgements]
    worlds = distinct_labels([row.environment for row in rows])
    methods = distinct_labels([row.estimator for row in rows])
    return [
        f"{world} / {method}" + ("" if row.device == "cpu" else f" ({row.device})")
        for world, method, row in zip(worlds, methods, rows, strict=True)
    ]


def verdict_counts(judgements: Iterable[Judgement]) -> str:
    """Return the counts of verdicts, the worst first: ``2 worse, 58 same``."""
    counts: dict[Verdict, int] = {}
    for one in judgements:
        counts[one.verdict] = counts.get(one.verdict, 0) + 1
    order = (
        Verdict.MISSING,
        Verdict.FAILED,
        Verdict.WORSE,
        Verdict.UNDECIDED,
        Verdict.INCOMPARABLE,
        Verdict.BETTER,
        Verdict.DRIFTED,
        Verdict.INDISTINGUISHABLE,
        Verdict.SAME,
    )
    return ", ".join(f"{counts[word]} {word}" for word in order if word in counts) or "no rows"


def detail(one: Judgement) -> str:
    """Return all that a verdict is based on, in one line."""
    parts = [one.reason] if one.reason else []
    if one.verdict in (Verdict.UNDECIDED, Verdict.INDISTINGUISHABLE) and one.ratio is not None:
        parts.append(
            "too few replicates to see any change"
            if one.detectable is None
            else f"would have seen {_growth(1 + one.detectable)}"
        )
    if one.heavy_tailed:
        parts.append("heavy-tailed")
    if one.verdict in (Verdict.WORSE, Verdict.BETTER):
        p = one.p if one.verdict is Verdict.WORSE else one.p_better
        parts.append(f"by {_ways(one)}; p {figure(p, 2)}")
    return "; ".join(parts)


def _ways(one: Judgement) -> str:
    """Name the tests that show a verdict; the typical error with its growth."""
    words = []
    for way in one.found_by:
        grown = one.typical_ratio if way is Way.TYPICAL else None
        words.append(way.value if grown is None else f"{way.value} ({_growth(grown)})")
    return " and ".join(words)


def percent_change(one: Judgement) -> str:
    """Format the growth of the mean squared error."""
    return "-" if one.ratio is None else _growth(one.ratio)


def _growth(ratio: float) -> str:
    """Format a ratio as a change in percent; large ones as a factor."""
    return f"x{figure(ratio)}" if ratio >= 3 else f"{100 * (ratio - 1):+.1f}%"


def _range(one: Judgement) -> str:
    if one.ratio_low is None or one.ratio_high is None:
        return "-"
    if one.ratio_high >= 3:
        return f"x{figure(one.ratio_low, 2)}..x{figure(one.ratio_high, 2)}"
    return f"{100 * (one.ratio_low - 1):+.0f}..{100 * (one.ratio_high - 1):+.0f}%"


def verdict_table(judgements: Sequence[Judgement]) -> Table:
    """Make the table of the rows that changed."""
    names = row_names(judgements)
    return Table(
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
            (
                Cell(one.verdict.mark, style=STYLES[one.verdict]),
                Cell(name),
                Cell(figure(one.rmse_before), one.rmse_before),
                Cell(figure(one.rmse_after), one.rmse_after),
                Cell(percent_change(one), one.ratio),
                Cell(_range(one)),
                Cell(one.verdict.value, one.verdict.value, STYLES[one.verdict]),
                Cell(detail(one)),
            )
            for name, one in zip(names, judgements, strict=True)
            if one.verdict is not Verdict.SAME
        ),
    )


def text_table(
    judgements: Sequence[Judgement],
    times: TimeReport | None = None,
    *,
    width: int = 80,
    color: bool = False,
) -> str:
    """Return the rows that changed, and how many did not."""
    table = _with_details_below(verdict_table(judgements))
    counts = Table(title=verdict_counts(judgements), columns=(), rows=())
    return "".join(
        [
            render_text(table, width=width, color=color, whole=True),
            *(f"{line}\n" for line in _time_lines(times)),
            render_text(counts, width=width, color=color),
        ]
    )


def _with_details_below(table: Table) -> Table:
    """Return the table with each row's detail as a second line of its name."""
    rows = []
    for row in table.rows:
        mark, name, *rest, detail_ = row
        lines = [text for text in (name.text, detail_.text) if text]
        rows.append((mark, Cell("\n  ".join(lines)), *rest))
    return replace(table, columns=table.columns[:-1], rows=tuple(rows))


def _time_lines(times: TimeReport | None) -> list[str]:
    if times is None:
        return []
    if times.notice:
        return [f"times not compared: {times.notice}"]
    lines = []
    for one in times.rows:
        if one.slower:
            row = one.row
            lines.append(
                f"slower: {row.environment.id} / {row.estimator.id} "
                f"{seconds(one.before)} -> {seconds(one.after)} "
                f"(x{one.ratio:.2f}, noise up to x{one.floor:.2f})"
            )
    if times.rows and not lines:
        lines.append(f"times: none of {len(times.rows)} timed rows is slower")
    return lines


def judgement_json(name: str, one: Judgement) -> dict[str, Any]:
    """Return one row as plain JSON."""
    row = one.row
    figures = {key: value for key, value in vars(one).items() if key not in ("row", "verdict")}
    return {
        "name": name,
        "mark": one.verdict.mark,
        "verdict": one.verdict.value,
        "environment": row.environment.id,
        "environment_params": dict(row.environment.params),
        "estimator": row.estimator.id,
        "label": row.estimator.label or row.estimator.id,
        "params": dict(row.estimator.params),
        "device": row.device,
        **figures,
    }


def time_json(times: TimeReport) -> dict[str, Any]:
    """Return the times as plain JSON."""
    rows = [
        {
            "environment": one.row.environment.id,
            "environment_params": dict(one.row.environment.params),
            "estimator": one.row.estimator.id,
            "params": dict(one.row.estimator.params),
            "before": one.before,
            "after": one.after,
            "ratio": one.ratio,
            "floor": one.floor,
            "slower": one.slower,
        }
        for one in times.rows
    ]
    return {"notice": times.notice or None, "rows": rows}


def markdown_table(
    judgements: Sequence[Judgement],
    title: str,
    times: TimeReport | None = None,
    trials_run: str = "",
) -> str:
    """Return a heading, the changed rows and the counts, for a job summary or a comment."""
    counts = f"**{verdict_counts(judgements)}**" + (f"; {trials_run}" if trials_run else "")
    lines = [f"### {prose(title)}", "", counts, ""]
    table = replace(verdict_table(judgements), notes=tuple(_time_lines(times)))
    return "\n".join(lines) + "\n" + render_markdown(table).rstrip() + "\n"


def github_lines(report: GateReport, baseline: str, ending: tuple[int, str]) -> str:
    """Return workflow commands: an annotation for each row that fails or needs a look.

    Parameters
    ----------
    report : what the gate found.
    baseline : the file that the annotations point at.
    ending : exit code and reason.
    """
    level: dict[Verdict, str] = dict.fromkeys(
        (Verdict.WORSE, Verdict.FAILED, Verdict.MISSING), "error"
    )
    level |= {Verdict.UNDECIDED: "warning", Verdict.INCOMPARABLE: "warning"}
    level |= {Verdict.BETTER: "notice"}
    lines = []
    for name, one in zip(row_names(report.judgements), report.judgements, strict=True):
        if one.verdict in level:
            title = _property(f"ope-bench gate: {one.verdict}")
            told = f"{name}: MSE {percent_change(one)}; {detail(one)}".rstrip("; ")
            place = f"file={_property(baseline)},title={title}"
            lines.append(f"::{level[one.verdict]} {place}::{_message(told)}")
    code, reason = ending
    if code and not any(line.startswith("::error") for line in lines):
        lines.append(github_line("error", reason))
    lines += [github_line("warning", told) for told in report.notices]
    # Reused outcomes say nothing of what no code digest sees.
    lines.append(github_line("warning" if report.reused else "notice", report.trials_run))
    return "".join(f"{line}\n" for line in lines)


def github_line(level: str, told: str) -> str:
    """Return one workflow command that stands for the whole gate."""
    return f"::{level} title=ope-bench gate::{_message(told)}"


def _message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
