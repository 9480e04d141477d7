"""What a gate or a comparison found: for a terminal, a reviewer, or a machine."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from typing import Any

from ope_bench.gate.judging import Judgement, Verdict
from ope_bench.gate.session import GateReport
from ope_bench.gate.timing import TimeReport
from ope_bench.leaderboard import setting_label
from ope_bench.report.columns import figure, seconds
from ope_bench.report.terminal import console_on, without_padding

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
]

STYLES = {
    Verdict.WORSE: "red",
    Verdict.FAILED: "red",
    Verdict.MISSING: "red",
    Verdict.BETTER: "green",
    Verdict.UNDECIDED: "yellow",
    Verdict.INCOMPARABLE: "yellow",
    Verdict.DRIFTED: "cyan",
    Verdict.ALIKE: "dim",
    Verdict.SAME: "dim",
}


def row_names(judgements: Sequence[Judgement]) -> list[str]:
    """``setting / estimator`` of each row, with what tells namesakes apart."""
    worlds = [one.row.environment for one in judgements]
    methods = [one.row.estimator for one in judgements]
    names = []
    for world, method, one in zip(worlds, methods, judgements, strict=True):
        device = "" if one.row.device == "cpu" else f" ({one.row.device})"
        names.append(f"{setting_label(world, worlds)} / {setting_label(method, methods)}{device}")
    return names


def verdict_counts(judgements: Iterable[Judgement]) -> str:
    """``2 worse, 58 same``, the worst first."""
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
        Verdict.ALIKE,
        Verdict.SAME,
    )
    return ", ".join(f"{counts[word]} {word}" for word in order if word in counts) or "no rows"


def detail(one: Judgement) -> str:
    """All that a verdict rests on, in one line."""
    parts = [one.reason] if one.reason else []
    if one.verdict in (Verdict.UNDECIDED, Verdict.ALIKE) and one.ratio is not None:
        parts.append(
            "too few replicates to see any change"
            if one.detectable is None
            else f"would have seen {_growth(1 + one.detectable)}"
        )
    if one.heavy_tailed:
        parts.append("heavy-tailed")
    if one.verdict in (Verdict.WORSE, Verdict.BETTER):
        p = one.p if one.verdict is Verdict.WORSE else one.p_better
        parts.append(f"p {figure(p, 2)}")
    return "; ".join(parts)


def percent_change(one: Judgement) -> str:
    """By how much the mean squared error grew."""
    return "-" if one.ratio is None else _growth(one.ratio)


def _growth(ratio: float) -> str:
    """A ratio as a change in percent; large ones as a factor."""
    return f"x{figure(ratio)}" if ratio >= 3 else f"{100 * (ratio - 1):+.1f}%"


def _range(one: Judgement) -> str:
    if one.ratio_low is None or one.ratio_high is None:
        return "-"
    if one.ratio_high >= 3:
        return f"x{figure(one.ratio_low, 2)}..x{figure(one.ratio_high, 2)}"
    return f"{100 * (one.ratio_low - 1):+.0f}..{100 * (one.ratio_high - 1):+.0f}%"


def _cells(name: str, one: Judgement) -> list[str]:
    return [
        one.verdict.mark,
        name,
        figure(one.rmse_before),
        figure(one.rmse_after),
        percent_change(one),
        _range(one),
        one.verdict.value,
    ]


HEADERS = ("", "row", "RMSE then", "now", "MSE", "95 %", "verdict")


def text_table(
    judgements: Sequence[Judgement],
    times: TimeReport | None = None,
    *,
    width: int = 80,
    colour: bool = False,
) -> str:
    """The rows that changed, and how many did not."""
    from rich.table import Table
    from rich.text import Text

    stream = io.StringIO()
    console = console_on(stream, width, colour=colour)
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for number, header in enumerate(HEADERS):
        table.add_column(
            header,
            justify="right" if 2 <= number <= 5 else "left",
            no_wrap=number != 1,
            overflow="fold" if number == 1 else "ellipsis",
            header_style="dim",
        )
    names = row_names(judgements)
    shown = [
        (name, one)
        for name, one in zip(names, judgements, strict=True)
        if one.verdict is not Verdict.SAME
    ]
    for name, one in shown:
        style = STYLES[one.verdict]
        cells = _cells(name, one)
        cells[1] = "\n  ".join(part for part in (name, detail(one)) if part)
        table.add_row(
            *(Text(cell, style=style if i in (0, 6) else "") for i, cell in enumerate(cells))
        )
    if shown:
        console.print(table)
    for line in _time_lines(times):
        console.print(Text(line))
    console.print(Text(verdict_counts(judgements), style="bold"))
    return without_padding(stream.getvalue())


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
    """One row as plain JSON."""
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
    """The times as plain JSON."""
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
    judgements: Sequence[Judgement], title: str, times: TimeReport | None = None
) -> str:
    """A heading, the rows that changed, and the counts; for a job summary or a comment."""
    from ope_bench.report.markdown import escaped, prose

    lines = [f"### {prose(title)}", "", f"**{verdict_counts(judgements)}**", ""]
    shown = [
        (name, one)
        for name, one in zip(row_names(judgements), judgements, strict=True)
        if one.verdict is not Verdict.SAME
    ]
    if shown:
        lines.append("| | " + " | ".join([*HEADERS[1:], ""]) + " |")
        lines.append("|---|---|---:|---:|---:|---:|---|---|")
        for name, one in shown:
            cells = [escaped(cell) for cell in [*_cells(name, one), detail(one)]]
            lines.append("| " + " | ".join([f"`{one.verdict.mark}`", *cells[1:]]) + " |")
        lines.append("")
    lines += [f"- {prose(line)}" for line in _time_lines(times)]
    return "\n".join(lines).rstrip() + "\n"


def github_lines(report: GateReport, baseline: str, ending: tuple[int, str]) -> str:
    """Workflow commands: an annotation for each row that fails or needs a look.

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
    return "".join(f"{line}\n" for line in lines)


def github_line(level: str, told: str) -> str:
    """One workflow command that stands for the whole gate."""
    return f"::{level} title=ope-bench gate::{_message(told)}"


def _message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
