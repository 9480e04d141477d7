"""Render estimates, and advice where there is any, as one HTML file."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from ope_bench import __version__
from ope_bench.errors import UsageError
from ope_bench.files import atomic_write
from ope_bench.logs.advice.advice_tables import advice_tables, summary
from ope_bench.logs.advice.advice_values import AdviceValues
from ope_bench.logs.charts.values import value_lines, values_chart
from ope_bench.logs.estimation import CONFOUNDING
from ope_bench.logs.page import charts
from ope_bench.logs.page.facts import (
    evidence_lines,
    reliability_lines,
    weight_lines,
    weight_words,
)
from ope_bench.logs.reading.log_data import LogData
from ope_bench.logs.result_rows import EstimateValues
from ope_bench.logs.result_tables import tables
from ope_bench.report.notebook.html_table import render_rows
from ope_bench.report.page.html import fill, read_part
from ope_bench.report.page.payload import escaped_json
from ope_bench.report.page.vega import vega
from ope_bench.report.requirements import needs_extra
from ope_bench.report.text.table import Table

__all__ = ["advice_page", "estimates_page", "write_page"]

LINE = 24
"""Pixels of one line of a chart."""


@dataclass(frozen=True)
class _Figure:
    """A chart of the page.

    Parameters
    ----------
    name : distinct on the page.
    title, words : above and below it.
    chart : the specification.
    lines : its data.
    height : pixels.
    """

    name: str
    title: str
    words: str
    chart: Any
    lines: Sequence[dict[str, Any]]
    height: int

    def html(self) -> str:
        label = escape(f"{self.title}. {self.words}", quote=True)
        return (
            f'<figure data-chart="{escape(self.name, quote=True)}">'
            f"<figcaption>{escape(self.title)}</figcaption>"
            f'<div class="chart" role="img" aria-label="{label}"></div>'
            f"<p>{escape(self.words)}</p></figure>"
        )

    def data(self) -> dict[str, Any]:
        spec = self.chart.to_dict(validate=False)
        # The page sets colors and sizes, for light and dark mode.
        spec.pop("config", None)
        return {"spec": spec, "lines": list(self.lines), "height": self.height}


def estimates_page(
    log: LogData, result: EstimateValues, *, script: Callable[[], str] = vega
) -> str:
    """Return the page of estimates: values with intervals, weights, propensities.

    Parameters
    ----------
    log : the log.
    result : of `estimate` on it.
    script : returns the Vega script.

    Raises
    ------
    UsageError : the extra ``report`` is not installed.
    """
    needs_extra()
    parts, figures = [], []
    shown = tables(result)
    for number, (target, table) in enumerate(zip(result.targets, shown, strict=False)):
        drawn = [
            _values(f"values-{number}", value_lines(target.rows, None), result.logging_average),
            *_weights(f"weights-{number}", log, target.name),
        ]
        figures += drawn
        parts.append(_section(f"policy-{number}", target.name, _table(table), drawn))
    if len(result.targets) > 1:
        parts.append(_section("differences", "Differences", _table(shown[-1]), []))
    about, drawn = _about_log(log)
    return _page("estimates", [*parts, about], [*figures, *drawn], script)


def advice_page(log: LogData, advice: AdviceValues, *, script: Callable[[], str] = vega) -> str:
    """Return the page of advice: verdict, candidates, weights, propensities, evidence.

    Parameters
    ----------
    log, advice : the log, and what `advise` said of it.
    script : returns the Vega script.

    Raises
    ------
    UsageError : the extra ``report`` is not installed.
    """
    needs_extra()
    checks, candidates, worlds = advice_tables(advice)
    chosen = advice.recommended.label if advice.recommended is not None else None
    values = _values("values", value_lines(advice.rows, chosen), advice.logging_average)
    weights = _weights("weights", log, advice.target)
    evidence = _evidence(advice)
    about, reliability = _about_log(log)
    parts = [
        _verdict(advice),
        _section("candidates", "Candidates", _table(candidates), [values, *weights]),
        _section("evidence", "Evidence", _table(worlds), evidence),
        _section("checks", "Checks", _table(checks), []),
        about,
    ]
    return _page("advice", parts, [values, *weights, *evidence, *reliability], script)


def write_page(path: Path, text: str) -> None:
    """Write a page.

    Raises
    ------
    UsageError : the file cannot be written.
    """
    with atomic_write(path, UsageError) as partial:
        partial.write_text(text, encoding="utf-8")


def _values(name: str, lines: Sequence[dict[str, Any]], average: float) -> _Figure:
    words = (
        "Points are estimates of the policy's value, lines their intervals where they offer one; "
        "the dashed line is the mean logged reward."
    )
    height = LINE * len(lines) + 40
    return _Figure(name, "Values", words, values_chart(average), lines, height)


def _weights(name: str, log: LogData, policy: str) -> list[_Figure]:
    weights = log.weights(policy)
    if weights is None or not (lines := weight_lines(weights)):
        return []
    words = weight_words(weights)
    return [_Figure(name, "Importance weights", words, charts.weights_chart(), lines, 240)]


def _evidence(advice: AdviceValues) -> list[_Figure]:
    lines = evidence_lines(advice)
    if not lines:
        return []
    height = LINE * len({line["world"] for line in lines}) + 60
    words = "Errors of the candidates on worlds made from the log, whose true values are known."
    chart = charts.evidence_chart()
    return [_Figure("evidence", "Errors on made worlds", words, chart, lines, height)]


def _about_log(log: LogData) -> tuple[tuple[str, str, str], list[_Figure]]:
    """Return the section on propensities and what no log can tell, and its figures."""
    lines = reliability_lines(log)
    drawn = []
    if lines:
        words = (
            f"For the {len(lines)} actions furthest from it, the mean of 1/p, which is one where "
            "the propensities are right, with its 95 % interval."
        )
        height = LINE * len(lines) + 40
        chart = charts.reliability_chart()
        title = "Reliability of propensities"
        drawn = [_Figure("reliability", title, words, chart, lines, height)]
    told = f'<p class="confounding">{escape(CONFOUNDING[0].upper() + CONFOUNDING[1:])}.</p>'
    return _section("log", "The log", told, drawn), drawn


def _verdict(advice: AdviceValues) -> tuple[str, str, str]:
    log = advice.log
    chips = [(f"{log['rows']:,}", "rows"), (f"{log['actions']:,}", "actions")]
    for one in advice.checks:
        if one.name == "effective sample size" and one.value is not None:
            chips.append((f"{one.value:,.0f}", "rows' worth of weights"))
        if one.name == "unsupported mass" and one.value is not None:
            chips.append((f"{one.value:.1%}", "unsupported"))
    listed = "".join(f"<li><b>{escape(value)}</b>{escape(word)}</li>" for value, word in chips)
    reasons = "".join(f"<li>{escape(reason)}</li>" for reason in advice.reasons)
    body = (
        f'<div class="verdict {advice.verdict}"><p><b>{advice.verdict}</b></p>'
        f"<p>{escape(summary(advice))}</p></div>"
        f'<ul class="chips">{listed}</ul><ul class="notes">{reasons}</ul>'
    )
    return "verdict", f"Verdict on {advice.target}", body


def _table(table: Table) -> str:
    notes = "".join(f"<li>{escape(note)}</li>" for note in table.notes)
    return f'<div class="scroll">{render_rows(table)}</div><ul class="notes">{notes}</ul>'


def _section(name: str, title: str, body: str, figures: Sequence[_Figure]) -> tuple[str, str, str]:
    drawn = "".join(figure.html() for figure in figures)
    return name, title, f'{body}<div class="figures">{drawn}</div>' if drawn else body


def _page(
    title: str,
    parts: Sequence[tuple[str, str, str]],
    figures: Sequence[_Figure],
    script: Callable[[], str],
) -> str:
    sections = "".join(f'<a href="#{name}">{escape(heading)}</a> ' for name, heading, _ in parts)
    main = "".join(
        f'<section id="{name}"><h2>{escape(heading)}</h2>{body}</section>'
        for name, heading, body in parts
    )
    made = f"Made by ope-bench {__version__} on {time.strftime('%Y-%m-%d %H:%M', time.gmtime())}"
    return fill(
        _read("page.html"),
        {
            "TITLE": title,
            "STYLE": read_part("page.css") + _read("page.css"),
            "SECTIONS": sections,
            "MAIN": main,
            "FOOTER": f"{made} UTC. It holds aggregates of the log, and no row of it.",
            "DATA": escaped_json({figure.name: figure.data() for figure in figures}),
            "VEGA": script(),
            "SCRIPT": read_part("scripts/theme.js") + _read("page.js"),
        },
    )


def _read(name: str) -> str:
    folder: Any = files("ope_bench.logs.page")
    return str((folder / name).read_text(encoding="utf-8"))
