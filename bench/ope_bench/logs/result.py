"""Estimates of policies' values from a log: rows, tables and chart."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from html import escape
from pathlib import Path
from typing import Any

from ope_bench.base.canonical import plain
from ope_bench.base.errors import UsageError, did_you_mean
from ope_bench.boards.columns import Style
from ope_bench.plugins.registry import registry
from ope_bench.plugins.requirements import data_frame
from ope_bench.report import access_legend, needs_extra, tables
from ope_bench.report.tables import TextTable


@dataclass(frozen=True, repr=False)
class LogResult:
    """A result on a log; shown, it is its summary and its tables."""

    def contents(self) -> dict[str, Any]:
        """Return what `as_json` has beside the version of its form."""
        return asdict(self)

    def tables(self) -> list[TextTable]:
        """Return the tables that show the result."""
        raise NotImplementedError

    def opening(self, *, several: bool = False) -> str:
        """Return the answer in a sentence, where the tables do not have it.

        Parameters
        ----------
        several : whether it is of one of several rewards, of which less may be better.
        """
        return ""

    def as_json(self) -> dict[str, Any]:
        """Return the document of the command with ``--format json``."""
        document: dict[str, Any] = plain({"schema": 1, **self.contents()})
        return document

    def __repr__(self) -> str:
        shown = (tables.render_text(table).rstrip() for table in self.tables())
        return "\n\n".join(filter(None, [self.opening(), *shown]))

    def _repr_html_(self) -> str:
        head = f"<p><b>{escape(self.opening())}</b></p>" if self.opening() else ""
        return "\n".join(filter(None, [head, *map(tables.render_html, self.tables())]))


@dataclass(frozen=True, kw_only=True)
class EstimateRow:
    """One estimator's estimate of one policy's value.

    Parameters
    ----------
    estimator, label, params : id, name on tables, and parameters.
    status : as in trials.
    value : expected reward per row under the policy.
    low, high : interval of the level; None where none is offered.
    level, interval : of the interval; its kind is None where none is offered.
    standard_error : of the value.
    lift, lift_low, lift_high : value minus the mean logged reward, with a paired interval; None
        for any but asymptotic intervals.
    ess_fraction : effective sample size of the weights over the rows.
    max_weight_share : largest weight over the sum of weights.
    access : what the estimator reads beyond samples.
    message : the reason where there is no value or no interval, or a warning.
    seconds : of fit and estimate.
    lift_relative : lift over the mean logged reward's size.
    disagreement_low, disagreement_high : interval of disagreement of the recommended estimator.
    sensitivity : where it was asked for and the estimator knows it: ``lambda_flip``, ``bounds``.
    """

    estimator: str
    label: str
    params: Mapping[str, Any]
    status: str
    value: float | None
    low: float | None
    high: float | None
    level: float
    interval: str | None
    standard_error: float | None
    lift: float | None
    lift_low: float | None
    lift_high: float | None
    ess_fraction: float | None
    max_weight_share: float | None
    access: tuple[str, ...]
    message: str | None
    seconds: float | None
    lift_relative: float | None = None
    disagreement_low: float | None = None
    disagreement_high: float | None = None
    sensitivity: Mapping[str, Any] | None = None

    def __repr__(self) -> str:
        value = f"{tables.figure(self.value)} ({span(self.low, self.high)})"
        return f"<{self.label}: {value}, lift {_signed(self.lift)}, {self.status}>"


@dataclass(frozen=True, kw_only=True)
class Segment:
    """A policy in the rows of one level of a column.

    Parameters
    ----------
    level : of the column; "" where the value is missing.
    rows : how many there are.
    value, low, high : the policy's value there, with its simultaneous interval.
    lift, lift_low, lift_high : value minus the mean logged reward there, the same.
    """

    level: str
    rows: int
    value: float | None = None
    low: float | None = None
    high: float | None = None
    lift: float | None = None
    lift_low: float | None = None
    lift_high: float | None = None


@dataclass(frozen=True, kw_only=True)
class TargetEstimates:
    """All estimates of one policy's value.

    Parameters
    ----------
    name : of the policy.
    unsupported_mass : share of it on actions that were never logged; None if unknown.
    rows : one for each estimator.
    left_out : estimators of the default list that cannot run, with the reason.
    recommended : label of the recommended one; None where it is not among the rows, or others
        contradict it.
    withheld : why no value may be stated; "" where they may.
    segments : the policy in each level of the column ``by``, where one was asked for.
    """

    name: str
    unsupported_mass: float | None
    rows: tuple[EstimateRow, ...]
    left_out: tuple[tuple[str, str], ...] = ()
    recommended: str | None = None
    withheld: str = ""
    segments: tuple[Segment, ...] = ()
    by: str = ""


@dataclass(frozen=True)
class Difference:
    """The difference between two policies by one estimator, paired by row.

    Parameters
    ----------
    estimator, label : as in `EstimateRow`.
    target, versus : names of the policies; the difference is the first minus the second.
    difference, low, high : with its interval; None where the estimator offers none, and for
        any but asymptotic intervals.
    """

    estimator: str
    label: str
    target: str
    versus: str
    difference: float
    low: float | None
    high: float | None


@dataclass(frozen=True, kw_only=True, repr=False)
class Estimates(LogResult):
    """The result of `estimate`; shown, it is a table for each policy.

    Parameters
    ----------
    log : facts of the log: rows, units, actions, propensity, target_form.
    logging_average : mean logged reward.
    targets : one for each policy.
    differences : between every two policies, new minus today: the one further from what was logged
        minus the nearer one.
    notes : what the reader must know.
    source : the log, for `report`.
    exit_code : 0, or 3 where every estimator failed.
    """

    log: Mapping[str, Any]
    logging_average: float
    targets: tuple[TargetEstimates, ...]
    differences: tuple[Difference, ...] = ()
    notes: tuple[str, ...] = ()
    source: Any = field(default=None, repr=False, compare=False)

    @property
    def exit_code(self) -> int:
        """0; 3 where no estimator has a value."""
        return 0 if any(row.value is not None for row in self) else 3

    def contents(self) -> dict[str, Any]:
        """Return log, policies with their estimates, notes and exit code."""
        targets = [
            {
                "name": target.name,
                "unsupported_mass": target.unsupported_mass,
                "rows": [asdict(row) for row in target.rows],
                **segments_document(target.by, target.segments),
            }
            for target in self.targets
        ]
        document: dict[str, Any] = {
            "log": self.log,
            "logging_average": self.logging_average,
            "targets": targets,
            "notes": list(self.notes),
            **segments_document(self.targets[0].by, self.targets[0].segments),
        }
        if len(self.targets) > 1:
            document["differences"] = [asdict(one) for one in self.differences]
        return {**document, "exit_code": self.exit_code}

    def __iter__(self) -> Iterator[EstimateRow]:
        return (row for target in self.targets for row in target.rows)

    def __getitem__(self, estimator: str) -> EstimateRow:
        """Return the first row of an estimator, by id or label."""
        for name in (estimator, registry().meant("estimator", estimator)):
            for row in self:
                if name in (row.label, row.estimator):
                    return row
        labels = dict.fromkeys(row.label for row in self)
        msg = f"no estimator '{estimator}'{did_you_mean(estimator, labels)}; there are: "
        raise KeyError(msg + ", ".join(labels))

    def records(self) -> list[dict[str, Any]]:
        """Return one row for each policy and estimator, with all fields by name."""
        return [
            {"target": target.name, **asdict(row), "unsupported_mass": target.unsupported_mass}
            for target in self.targets
            for row in target.rows
        ]

    def tables(self) -> list[TextTable]:
        """Return a table for each policy, and one of differences where there are several."""
        found = []
        for target in self.targets:
            found.append(_target_table(self, target))
            if target.by:
                title = f"{target.name} by {target.by}"
                found.append(segments_table(title, target.segments))
        if len(self.targets) > 1:
            columns = (
                tables.TableColumn(
                    key="estimator", title="estimator", right=False, overflow="cut"
                ),
                tables.TableColumn(key="target", title="policy", right=False),
                tables.TableColumn(key="versus", title="minus", right=False),
                tables.TableColumn(key="difference", title="difference"),
                tables.TableColumn(key="interval", title="interval, paired", right=False),
            )
            differences = tuple(
                tables.cells(
                    *(one.label, one.target, one.versus, _signed(one.difference)),
                    span(one.low, one.high, signed=True),
                )
                for one in self.differences
            )
            title = "differences between policies"
            found.append(tables.TextTable(title=title, columns=columns, rows=differences))
        legend = (
            "ESS: effective sample size of the weights, of the rows; largest: the largest weight, "
            f"of the sum of all; {access_legend(row.access for row in self)}"
        )
        found[-1] = replace(found[-1], notes=(*found[-1].notes, legend, *self.notes))
        return found

    def to_pandas(self) -> Any:
        """Return one row for each policy and estimator as a pandas DataFrame."""
        return data_frame(self.records())

    def plot(self, target: str | None = None) -> Any:
        """Return values and intervals of one policy, or of all on one axis, as an Altair chart.

        Raises
        ------
        UsageError : the extra ``report`` is not installed.
        KeyError : there is no such policy.
        """
        by_name = {one.name: one for one in self.targets}
        shown = self.targets if target is None else [by_name[target]]
        title = shown[0].name if len(shown) == 1 else ""
        lines = [line for one in shown for line in value_lines(one.rows, policy=one.name)]
        return plot_values(lines, self.logging_average, title)

    def to_latex(self) -> str:
        """Return the tables as LaTeX."""
        return "\n".join(map(tables.render_latex, self.tables()))

    def report(self, path: str | Path) -> None:
        """Write the page of ``ope-bench estimate --report``; it needs no network.

        Raises
        ------
        UsageError : the extra ``report`` is not installed, the file cannot be written, or the
            estimates are not of `ope_bench.estimate`.
        """
        if self.source is None:
            msg = "report: these estimates do not hold their log; make them by ope_bench.estimate"
            raise UsageError(msg)
        self.source.report(self, path)


_COLUMNS: tuple[tables.TableColumn, ...] = (
    tables.TableColumn(key="estimator", title="estimator", right=False, overflow="cut"),
    tables.TableColumn(key="value", title="value"),
    tables.TableColumn(key="interval", title="interval", right=False),
    tables.TableColumn(key="lift", title="lift"),
    tables.TableColumn(key="lift_relative", title="in %", drop=5),
    tables.TableColumn(key="lift_interval", title="its interval", right=False, drop=4),
    tables.TableColumn(key="ess", title="ESS", drop=3),
    tables.TableColumn(key="largest", title="largest", drop=2),
    tables.TableColumn(key="access", title="access", right=False, drop=1),
    tables.TableColumn(key="seconds", title="time", drop=0),
    tables.TableColumn(key="status", title="status", right=False),
)


def _target_table(result: Estimates, target: TargetEstimates) -> tables.TextTable:
    mass = target.unsupported_mass
    parts = [
        target.name,
        f"{result.log['rows']:,} rows, {result.log['actions']:,} actions",
        f"logged average {tables.figure(result.logging_average)}",
        "actions never logged: unknown"
        if mass is None
        else f"{tables.percent(mass)} on actions never logged",
    ]
    said = [("", row.label, row.message) for row in target.rows if row.message]
    said += [("not run: ", label, reason) for label, reason in target.left_out]
    rows = tuple(_cells(row, target) for row in target.rows)
    notes = shared_notes(said)
    if target.withheld:
        notes = (f"no value holds here. {target.withheld}", *notes)
    elif any(row.label == target.recommended for row in target.rows):
        notes = ("* recommended", *notes)
    table = TextTable(title=" | ".join(parts), columns=_COLUMNS, rows=rows, notes=notes)
    fine = all(row.status == "ok" for row in target.rows)
    return table.without({"status"}) if fine else table


def segments_document(by: str, segments: Sequence[Segment]) -> dict[str, Any]:
    """Return the key ``segments`` of a document, where segments were asked for."""
    return {"segments": [asdict(one) for one in segments]} if by else {}


def segments_table(title: str, segments: Sequence[Segment]) -> tables.TextTable:
    """Return the table of a policy's segments, with who loses."""
    columns = (
        tables.TableColumn(key="level", title="segment", right=False, overflow="cut"),
        tables.TableColumn(key="rows", title="rows"),
        tables.TableColumn(key="value", title="value"),
        tables.TableColumn(key="interval", title="interval", right=False),
        tables.TableColumn(key="lift", title="lift"),
        tables.TableColumn(key="ends", title="its interval", right=False),
    )
    worse = [one.level or "missing" for one in segments if (one.lift_high or 0.0) < 0]
    better = [one.level or "missing" for one in segments if (one.lift_low or 0.0) > 0]
    notes = [
        f"worse for: {', '.join(worse) or 'no segment, as far as the log tells'}",
        *([f"better for: {', '.join(better)}"] if better else []),
        "intervals hold for all segments at once",
    ]
    if any(one.low is None and one.value is not None for one in segments):
        notes.append("no interval: too few effective rewarded rows")
    if all(one.value is None for one in segments):
        notes = ["no value: none may be stated, or no estimator here is a mean over rows as ipws"]
    return tables.TextTable(
        title=title, columns=columns, rows=tuple(map(_line, segments)), notes=tuple(notes)
    )


def _line(one: Segment) -> Any:
    style: Any = ""
    if one.lift_low is not None and one.lift_high is not None:
        style = "bad" if one.lift_high < 0 else "good" if one.lift_low > 0 else ""
    return tables.cells(
        tables.Cell(one.level or "missing", style=style),
        *(f"{one.rows:,}", tables.figure(one.value), span(one.low, one.high)),
        *(_signed(one.lift), span(one.lift_low, one.lift_high, signed=True)),
    )


def shared_notes(said: Iterable[tuple[str, str, str | None]]) -> tuple[str, ...]:
    """Return notes, one for all labels of which the same is said, after the same head."""
    labels: dict[tuple[str, str], list[str]] = {}
    for head, label, text in said:
        if text:
            labels.setdefault((head, text), []).append(label)
    return tuple(f"{head}{', '.join(some)}: {text}" for (head, text), some in labels.items())


def _cells(row: EstimateRow, target: TargetEstimates) -> tuple[tables.Cell, ...]:
    style: Style = "" if row.status == "ok" else "bad"
    best = row.label == target.recommended and not target.withheld
    shade: Style = "dim" if target.withheld else "best" if best else ""
    numbers = (
        tables.figure(row.value),
        span(row.low, row.high),
        _signed(row.lift),
        tables.MISSING if row.lift_relative is None else f"{row.lift_relative:+.1%}",
        span(row.lift_low, row.lift_high, signed=True),
    )
    return tables.cells(
        tables.Cell(f"{row.label}{' *' * best}", style=shade),
        *(tables.Cell(one, style=shade) for one in numbers),
        tables.percent(row.ess_fraction),
        tables.percent(row.max_weight_share),
        tables.access_letters(row.access),
        tables.seconds(row.seconds),
        tables.Cell(row.status, style=style),
    )


def _signed(value: float | None) -> str:
    text = tables.figure(value)
    return f"+{text}" if value is not None and value > 0 else text


def as_wide(values: Iterable[float], width: float, *, signed: bool = False) -> list[str]:
    """Return numbers with the digits that an interval of some width is worth.

    >>> as_wide([0.41972, 0.326, 0.5131], 0.187), as_wide([25.4, -2.6], 56.0, signed=True)
    (['0.42', '0.33', '0.51'], ['+25', '-3'])
    """
    if not math.isfinite(width):
        return [tables.figure(one) for one in values]
    digits = 0 if width <= 0 else max(0, math.ceil(1 - math.log10(width)))
    return [f"{round(one, digits) + 0.0:{'+' * signed}.{digits}f}" for one in values]


def span(low: float | None, high: float | None, *, signed: bool = False) -> str:
    """Return an interval in words, a dash for none."""
    if low is None or high is None:
        return tables.MISSING
    write = _signed if signed else tables.figure
    return f"{write(low)} to {write(high)}"


def csv_table(result: Any) -> tables.TextTable:
    """Return one table for programs: a line for each policy and estimator, all fields."""
    records: list[dict[str, Any]] = plain(result.records())
    keys = list(records[0]) if records else []
    return tables.TextTable(
        columns=tuple(tables.TableColumn(key=key, title=key) for key in keys),
        rows=tuple(tuple(tables.Cell("", record[key]) for key in keys) for record in records),
    )


# Values as a chart, for notebooks and pages.


def plot_values(lines: Sequence[dict[str, Any]], logging_average: float, title: str) -> Any:
    """Return the chart of estimates with its data, for a notebook.

    Parameters
    ----------
    lines : as of `value_lines`.

    Raises
    ------
    UsageError : the extra ``report`` is not installed.
    """
    needs_extra()
    from ope_bench.report.chart_parts import offline_chart

    policies = list(dict.fromkeys(line["policy"] for line in lines))
    axis = "expected reward per decision"
    chart = interval_chart("estimator", "value", axis, logging_average, policies, lines)
    return offline_chart(chart.properties(title=title, width=480).to_dict())


def value_lines(
    rows: Iterable[EstimateRow], chosen: str | None = None, policy: str = ""
) -> list[dict[str, Any]]:
    """Return values and intervals of the estimators that have a value."""
    return [
        {
            "estimator": row.label,
            "policy": policy,
            "value": row.value,
            "low": row.disagreement_low if row.low is None else row.low,
            "high": row.disagreement_high if row.high is None else row.high,
            "chosen": row.label == chosen,
        }
        for row in rows
        if row.value is not None
    ]


def interval_chart(
    name: str, value: str, title: str, at: float, policies: Sequence[str] = (), data: Any = None
) -> Any:
    """Chart points with intervals, one a line, and a dashed line at a value.

    Parameters
    ----------
    name, value : fields of the lines, which may have ``low``, ``high`` and ``chosen`` too.
    title : of the axis of values.
    at : where the dashed line is.
    policies : values of the field ``policy``; several stand below each other, in colors.
    data : the lines; the page provides them by name where None.
    """
    # Altair takes a quarter of a second to import, and results import this module.
    import altair as alt

    from ope_bench.report.chart_parts import named_table, tooltip
    from ope_bench.report.styles import colors

    table = named_table() if data is None else alt.InlineData(values=data)
    y = alt.Y(f"{name}:N", sort=None, title=None, axis=alt.Axis(labelLimit=180))
    few = alt.Axis(tickCount=8)
    x = alt.X(f"{value}:Q", title=title, axis=few, scale=alt.Scale(zero=False))
    blue, _, _, orange, *_ = colors()
    color: Any = alt.condition("datum.chosen", alt.value(orange), alt.value(blue))
    shown = tooltip(f"{name}:N {value}:Q low:Q high:Q")
    encoding: dict[str, Any] = {"y": y, "color": color, "tooltip": shown}
    if len(policies) > 1:
        scale = alt.Scale(domain=list(policies), range=list(colors()[: len(policies)]))
        legend = alt.Legend(orient="top", title="policy")
        encoding["color"] = alt.Color("policy:N", sort=None, scale=scale, legend=legend)
        encoding["yOffset"] = alt.YOffset("policy:N", sort=list(policies))
        encoding["tooltip"] = tooltip(f"policy:N {name}:N {value}:Q low:Q high:Q")
    base = alt.Chart(table).encode(**encoding)
    bars = base.mark_rule().encode(x=alt.X("low:Q", title=title, axis=few), x2="high:Q")
    points = base.mark_point(filled=True, opacity=1).encode(x=x)
    line = alt.Chart(alt.InlineData(values=[{value: at}]))
    dashed = line.mark_rule(strokeDash=[4, 3], color="#888").encode(x=x)
    return dashed + bars.transform_filter("isValid(datum.low)") + points
