"""Estimates and advice on a log as one HTML file: aggregates alone, no row of the log.

Importing this module imports Altair, which takes a quarter of a second.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np

from ope_bench import __version__
from ope_bench.contracts.arrays import FloatArray
from ope_bench.logs import result as results
from ope_bench.logs.advise import Advice, PoliciesAdvice
from ope_bench.logs.checks import reliability_of
from ope_bench.logs.estimation import CONFOUNDING
from ope_bench.logs.finding import Check
from ope_bench.logs.log_data import LogData
from ope_bench.logs.problem import below_one
from ope_bench.logs.rewards import ByReward
from ope_bench.report.chart_parts import log_scale, named_table, tooltip
from ope_bench.report.page.html import PageChart, PageSection, render_sections
from ope_bench.report.page.libraries import vega
from ope_bench.report.styles import colors
from ope_bench.report.tables import TextTable, figure, render_rows

BINS = 24
_MOST_ACTIONS = 20
_LINE = 24
"""Pixels of one line of a chart."""


def log_page(log: LogData, result: Any, *, script: Callable[[], str] = vega) -> str:
    """Return the page of estimates or of advice: answers, values, weights, propensities.

    Parameters
    ----------
    log, result : the log, and what `estimate` or `advise` said of it.
    script : returns the Vega script.
    """
    of_rewards = result.results if isinstance(result, ByReward) else {"": result}
    logs = log.by_reward() if isinstance(result, ByReward) else {"": log}
    sections = []
    for number, (reward, found) in enumerate(of_rewards.items()):
        of: Any = _of_estimates if isinstance(found, results.Estimates) else _of_advice
        for one in of(logs[reward], found):
            if reward:
                charts = [replace(c, name=f"{c.name}-of-{number}") for c in one.charts]
                name, title = f"{one.name}-of-{number}", f"{reward}: {one.title}"
                one = PageSection(name, title, one.body, charts)
            sections.append(one)
    made = time.strftime("%Y-%m-%d %H:%M", time.gmtime())
    footer = (
        f"Made by ope-bench {__version__} on {made} UTC. One file to send or to print; it holds "
        "aggregates of the log, and no row of it."
    )
    title = "estimates" if isinstance(found, results.Estimates) else "advice"
    return render_sections(title, [*sections, _about_log(log)], footer, script=script)


def _of_estimates(log: LogData, result: results.Estimates) -> Iterator[PageSection]:
    """Yield the sections of estimates."""
    names = [target.name for target in result.targets]
    lines = [
        line for one in result.targets for line in results.value_lines(one.rows, policy=one.name)
    ]
    values = _values(log, lines, names, result.logging_average)
    question = _question(log, names, result.logging_average, result.log)
    yield PageSection("question", "The question", question, values)
    shown = iter(result.tables())
    for number, one in enumerate(result.targets):
        body = _table(next(shown)) + (_table(next(shown), titled=True) if one.by else "")
        weights = _weights(f"weights-{number}", log, one.name)
        yield PageSection(f"policy-{number}", one.name, body, weights)
    for table in shown:
        yield PageSection("differences", "Differences", _table(table))


def _of_advice(log: LogData, advice: Advice | PoliciesAdvice) -> Iterator[PageSection]:
    """Yield the sections of advice."""
    if isinstance(advice, PoliciesAdvice):
        average, lines = advice.policies[0].logging_average, advice.lines()
        answer = f'<div class="verdict"><p><b>{escape(advice.opening())}</b></p></div>'
        question = _question(log, list(log.targets), average, advice.policies[0].log)
        body = question + answer + _table(advice.tables()[0])
        yield PageSection("winner", "Which policy wins", body, _values(log, lines, [], average))
        for number, one in enumerate(advice.policies):
            _, candidates, *others = one.tables()
            weights = _weights(f"weights-{number}", log, one.target)
            body = _verdict(one) + _table(candidates) + _more(others)
            yield PageSection(f"policy-{number}", one.target, body, weights)
        return
    checks, candidates, *others = advice.tables()
    chosen = advice.recommended.label if advice.recommended is not None else None
    lines = results.value_lines(advice.rows, chosen)
    values = _values(log, lines, [], advice.logging_average)
    weights = _weights("weights", log, advice.target)
    question = _question(log, [advice.target], advice.logging_average, advice.log)
    yield PageSection("verdict", f"Verdict on {advice.target}", question + _verdict(advice))
    yield PageSection("candidates", "Candidates", _table(candidates), [*values, *weights])
    if others:
        yield PageSection("evidence", "Evidence", _more(others))
    yield PageSection("checks", "Checks", _table(checks))


# Sections


def _table(table: TextTable, *, titled: bool = False) -> str:
    head = f"<h3>{escape(table.title)}</h3>" if titled else ""
    notes = "".join(f"<li>{escape(note)}</li>" for note in table.notes)
    scroll = f'<div class="scroll" tabindex="0">{render_rows(table)}</div>'
    return f'{head}<div class="wide">{scroll}</div><ul class="notes">{notes}</ul>'


def _more(tables: Sequence[TextTable]) -> str:
    return "".join(_table(one, titled=True) for one in tables)


def _question(
    log: LogData, policies: Sequence[str], average: float, facts: Mapping[str, Any]
) -> str:
    """Say what is asked, of which log, and in which unit."""
    spec = log.spec
    reward = "reward" if spec is None else spec.reward
    parts = [f"{facts['rows']:,} decisions among {facts['actions']:,} actions"]
    if spec is not None and isinstance(spec.table, str | Path):
        parts.insert(0, Path(spec.table).name)
    if log.time_span is not None:
        # Dates alone, where times are times of days.
        parts.append(" to ".join(one.partition("T")[0] for one in log.time_span))
    names = " and ".join(filter(None, (", ".join(policies[:-1]), policies[-1])))
    text = (
        f"What would {names} have earned? Expected {reward} per decision; the policy that was "
        f"logged earned {figure(average)} ({', '.join(parts)})."
    )
    return f"<p>{escape(text)}</p>"


def _verdict(advice: Advice) -> str:
    log = advice.log
    chips = [(f"{log['rows']:,}", "rows"), (f"{log['actions']:,}", "actions")]
    for one in advice.checks:
        if one.check is Check.EFFECTIVE_SIZE and one.value is not None:
            chips.append((f"{one.value:,.0f}", "effective sample size"))
        if one.check is Check.SUPPORT and one.value is not None:
            chips.append((f"{one.value:.1%}", "unsupported"))
    listed = "".join(f"<li><b>{escape(value)}</b>{escape(word)}</li>" for value, word in chips)
    reasons = "".join(f"<li>{escape(reason)}</li>" for reason in advice.reasons)
    return (
        f'<div class="verdict {advice.verdict}"><p><b>{advice.verdict}</b></p>'
        f"<p>{escape(advice.opening())}</p></div>"
        f'<ul class="chips">{listed}</ul><ul class="notes">{reasons}</ul>'
    )


def _about_log(log: LogData) -> PageSection:
    """Return the section on propensities and on what no log can tell."""
    body = f'<p class="confounding">{escape(CONFOUNDING[0].upper() + CONFOUNDING[1:])}.</p>'
    found = reliability_of(log)
    if found is None or not len(found.action):
        return PageSection("log", "The log", body)
    # The mean of 1{a}/p by action, in expectation one.
    furthest = np.argsort(-np.abs(found.z), kind="stable")[:_MOST_ACTIONS]
    lines = [
        {
            "action": log.actions[found.action[k]],
            "mean": float(found.mean[k]),
            "low": float(found.mean[k] - 1.96 * found.error[k]),
            "high": float(found.mean[k] + 1.96 * found.error[k]),
        }
        for k in furthest
    ]
    words = (
        f"For the {len(lines)} actions furthest from it, the mean of 1/p, which is one where "
        "the propensities are right, with its 95 % interval."
    )
    title, height = "Reliability of propensities", _LINE * len(lines) + 40
    drawn = results.interval_chart("action", "mean", "mean of 1/p over the action's rows", 1.0)
    chart = PageChart("reliability", title, words, drawn, lines, height)
    return PageSection("log", "The log", body, [chart])


# Charts and their data


def _values(
    log: LogData, lines: list[dict[str, Any]], policies: Sequence[str], average: float
) -> list[PageChart]:
    """Chart the values of all policies on one axis; nothing where no estimator has a value."""
    if not lines:
        return []
    words = (
        "Points are estimates of a policy's value, lines their intervals where they offer one; "
        "the dashed line is the mean logged reward."
    )
    reward = "reward" if log.spec is None else log.spec.reward
    known = [name for name in policies if any(line["policy"] == name for line in lines)]
    axis = f"expected {reward} per decision"
    chart = results.interval_chart("estimator", "value", axis, average, known)
    height = _LINE * len(lines) + 40 + 40 * (len(known) > 1)
    return [PageChart("values", "Values", words, chart, lines, height)]


def _weights(name: str, log: LogData, policy: str) -> list[PageChart]:
    weights = log.weights(policy)
    if weights is None or not (lines := weight_lines(weights, log.weight)):
        return []
    scale = alt.Scale(domain=["rows", "weight"], range=[colors()[0], colors()[3]])
    legend = alt.Legend(orient="top")
    bars = alt.Chart(named_table()).mark_bar(opacity=0.55)
    chart = bars.encode(
        x=alt.X("low:Q", title="importance weight", scale=log_scale(4)),
        x2="high:Q",
        y=alt.Y("share:Q", title="share", axis=alt.Axis(format="%"), stack=None),
        y2=alt.datum(0),
        color=alt.Color("of:N", title="share of", scale=scale, legend=legend),
        tooltip=tooltip("of:N low:Q high:Q share:Q"),
    )
    words = weight_words(weights, log.weight)
    return [PageChart(name, "Importance weights", words, chart, lines, 240)]


def weight_lines(
    weights: FloatArray, row_weight: FloatArray | None = None
) -> list[dict[str, Any]]:
    """Return the weights' histogram: shares of rows and of the weight, in geometric bins."""
    count = np.ones(len(weights)) if row_weight is None else row_weight
    positive, count, n = weights[weights > 0], count[weights > 0], float(count.sum())
    if not len(positive):
        return []
    low, high = float(positive.min()), float(positive.max())
    edges = np.geomspace(low, high, BINS + 1) if high > low else np.array([low / 1.1, low * 1.1])
    # Rounding in `geomspace` may leave the extremes outside.
    edges[0], edges[-1] = min(edges[0], low), max(edges[-1], high)
    rows = np.histogram(positive, edges, weights=count)[0] / n
    share = np.histogram(positive, edges, weights=count * positive)[0] / (count @ positive)
    return [
        {"low": float(left), "high": float(right), "share": float(one), "of": of}
        for of, shares in (("rows", rows), ("weight", share))
        for left, right, one in zip(edges[:-1], edges[1:], shares, strict=True)
    ]


def weight_words(weights: FloatArray, row_weight: FloatArray | None = None) -> str:
    """Return the figures of the weights in one sentence."""
    average = float(np.average(weights, weights=row_weight))
    zero = float(np.average(weights == 0, weights=row_weight))
    if row_weight is not None:
        weights = weights * (row_weight / row_weight.mean())
    largest, scaled = float(weights.max()), below_one(weights)
    total, squares = float(scaled.sum()), float(np.square(scaled).sum())
    if squares == 0:
        return "All weights are zero: no logged action is one that the policy takes."
    return (
        f"{zero:.0%} of the rows have weight zero; the weights average "
        f"{average:.3f} (1 is right), the largest is {largest:.3g} and carries "
        f"{scaled.max() / total:.1%} of the weight; the effective sample size is "
        f"{total**2 / squares:,.0f} of {len(weights):,} rows."
    )
