"""Advise on a log: which number to trust, how far, and what to do first."""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable, Container, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from ope_bench.base.errors import UsageError, short_errors
from ope_bench.base.units import format_duration
from ope_bench.boards.columns import Style
from ope_bench.execution import Event, Executor, Finished
from ope_bench.logs import advice_verdict, advice_worlds, estimation
from ope_bench.logs.checks import findings_of
from ope_bench.logs.finding import Check, Finding, contents_of, findings_table
from ope_bench.logs.log_data import LogData, stored_log
from ope_bench.logs.next_log import SHARE, NextLog, next_log
from ope_bench.logs.problem import unit_of
from ope_bench.logs.recommendation import (
    DISAGREEMENT,
    LIKELIHOOD,
    Recommendation,
    Stated,
    few_rewards,
    recommendation_for,
)
from ope_bench.logs.result import (
    EstimateRow,
    LogResult,
    Segment,
    as_wide,
    plot_values,
    segments_document,
    segments_table,
    shared_notes,
    span,
    value_lines,
)
from ope_bench.logs.rewards import each_reward
from ope_bench.logs.segments import segment_codes
from ope_bench.logs.shortlist import Shortlist, shortlist_of, values_alone
from ope_bench.plugins.requirements import data_frame
from ope_bench.plugins.spec import PluginSpec, distinct_labels
from ope_bench.report.tables import MISSING, Cell, TableColumn, TextTable, cells, figure, percent
from ope_bench.statistics.unit_errors import standard_error
from ope_bench.trials.record import Trial, TrialRecord
from ope_bench.trials.status import Status
from ope_bench.trials.trial import run_trial

Observer = Callable[[Sequence[Trial]], Any]
"""Called with all trials before the first; its context manager is told every event: `handle`."""

_VERDICT_STYLES: Mapping[str, Style] = {
    "trust": "good",
    "caution": "caution",
    "run-an-experiment": "bad",
}

ANSWERS: Mapping[str, str] = {
    "trust": "yes",
    "caution": "with repairs",
    "run-an-experiment": "no",
}
"""Answers to the question whether a log can answer, by verdict."""

Better = Literal["better", "worse", "cannot tell"]

_DOUBTS = {Check.LARGEST_WEIGHT, Check.CONTRADICTION}
"""Checks after which neither size nor sign of a lift is said."""

_GIVES = (
    "For an interval give the new policy's probabilities of all actions: `target: {table: FILE}` "
    "or `{policy: FILE.py:NAME}` (1 for what a rule does)."
)

_LEARNED_SIZE = "epws"
"""The estimator whose learned weights tell an effective sample size."""

PART_FROM, PART_ROWS = 20_000, 5_000
"""Rows of a log above which a panel that widens no interval runs on a part, and those of it."""

_CANDIDATES_LEGEND = "* recommended; error, rank, cover: over the worlds below"
_WORLDS_LEGEND = (
    "AUC against the log: of a classifier between the world's rows and the log's, .5 is chance; "
    "error: of the recommended estimator"
)


_CANDIDATE_COLUMNS = (
    TableColumn(key="estimator", title="estimator", right=False, overflow="cut"),
    TableColumn(key="value", title="value"),
    TableColumn(key="interval", title="interval", right=False),
    TableColumn(key="rmse", title="error"),
    TableColumn(key="rank", title="rank", drop=1),
    TableColumn(key="worlds_best", title="best on", drop=0),
    TableColumn(key="coverage", title="cover"),
)


@dataclass(frozen=True, kw_only=True)
class Recommended:
    """The recommended estimator.

    Parameters
    ----------
    estimator, label : id, and name on tables.
    value, low, high : its estimate of the policy's value, with its interval; None where no value
        may be stated.
    interval : kind of the interval; None where none is stated.
    stated_coverage : share of logs like this one, of drawn worlds, in which it held the value.
    first_action : what to repair or to do first; "" where nothing is wrong.
    lift, lift_low, lift_high : the same over the mean logged reward.
    expected_rmse : its error over the made worlds; None without them.
    expected_coverage : share of its own intervals there that held the truth.
    """

    estimator: str
    label: str
    value: float | None
    low: float | None
    high: float | None
    interval: str | None
    stated_coverage: float | None
    lift: float | None
    lift_low: float | None
    lift_high: float | None
    first_action: str = ""
    expected_rmse: float | None = None
    expected_coverage: float | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class Advice(LogResult):
    """Verdict, recommendation and evidence on a policy of a log; shown, they are three tables.

    Parameters
    ----------
    log : facts of the log.
    target : name of the policy.
    logging_average : mean logged reward.
    average_error : its standard error; None for one unit.
    verdict : ``trust``, ``caution`` or ``run-an-experiment``.
    reasons : why.
    recommended : the estimator to use; None where none has a value.
    rule : how it was chosen.
    rows : the candidates on the log.
    candidates : the candidates on the made worlds, by label.
    worlds : the made worlds.
    checks : what the verdict rests on.
    experiment : what to log next, where the verdict asks for it and the log can say.
    notes : what the reader must know; that no log shows hidden causes is always among them.
    by, segments : a column, and the policy in each of its levels, where it was asked for.
    """

    log: Mapping[str, Any]
    target: str
    logging_average: float
    average_error: float | None
    verdict: advice_verdict.Verdict
    reasons: Sequence[str]
    recommended: Recommended | None
    rule: str
    rows: Sequence[EstimateRow]
    candidates: Mapping[str, advice_verdict.CandidateFigures]
    worlds: Sequence[advice_verdict.WorldFigures]
    checks: Sequence[Finding]
    experiment: NextLog | None
    notes: Sequence[str]
    by: str = ""
    segments: Sequence[Segment] = ()

    @property
    def exit_code(self) -> int:
        """0 whatever the verdict; 3 where no candidate has a value."""
        return 0 if self.recommended is not None else 3

    @property
    def better(self) -> Better:
        """Whether the policy is better than what was logged."""
        chosen = self.recommended
        if self.doubted or chosen is None or chosen.value is None:
            return "cannot tell"
        if chosen.lift_low is not None and chosen.lift_low > 0:
            return "better"
        return "worse" if chosen.lift_high is not None and chosen.lift_high < 0 else "cannot tell"

    @property
    def doubted(self) -> bool:
        """Whether nothing is said about the lift."""
        return self._doubted or self.verdict == "run-an-experiment"

    @property
    def _doubted(self) -> bool:
        return any(one.passed is False and one.check in _DOUBTS for one in self.checks)

    def contents(self) -> dict[str, Any]:
        """Return verdict, recommendation and evidence, facts of the log, notes and exit code."""
        found = asdict(self) | contents_of(self.checks)
        ends = {"value": "lift", "low": "lift_low", "high": "lift_high"}
        chosen = self.recommended
        lift = {key: chosen and getattr(chosen, name) for key, name in ends.items()}
        found |= {"better": self.better, "lift": lift}
        found |= {"candidates": self.ranked(), "exit_code": self.exit_code}
        del found["rows"], found["by"], found["segments"]
        return found | segments_document(self.by, self.segments)

    def ranked(self) -> list[dict[str, Any]]:
        """Return the candidates with their figures, in the order of their ranks."""
        names = ("estimator", "label", "status", "value", "low", "high", "message")
        found = [
            {name: getattr(row, name) for name in names}
            | asdict(self.candidates.get(row.label, advice_verdict.CandidateFigures()))
            for row in self.rows
        ]
        return sorted(found, key=lambda one: (one["rank"] is None, one["rank"] or 0))

    def to_pandas(self) -> Any:
        """Return one row for each candidate as a pandas DataFrame."""
        return data_frame(self.ranked())

    def plot(self) -> Any:
        """Return the candidates' values and intervals as an Altair chart, the chosen one marked.

        Raises
        ------
        UsageError : the extra ``report`` is not installed.
        """
        chosen = self.recommended.label if self.recommended is not None else None
        return plot_values(value_lines(self.rows, chosen), self.logging_average, self.target)

    def opening(self, *, several: bool = False) -> str:
        """Return both answers, value, interval and what to do first."""
        words: dict[str, str] = {"better": "higher", "worse": "lower"} if several else {}
        chosen = self.recommended
        said = f"Can this log answer? {ANSWERS[self.verdict].capitalize()}."
        if chosen is None:
            return f"{said} No estimator has a value here."
        answer = words.get(self.better, self.better).capitalize()
        said += f" Is {self.target} {words.get('better', 'better')}? {answer}"
        if chosen.value is None:
            return f"{said}. {chosen.first_action}".rstrip()
        said += self._lift()
        value, ends = figure(chosen.value), "no interval"
        if chosen.low is not None and chosen.high is not None:
            numbers = (chosen.value, chosen.low, chosen.high)
            value, low, high = as_wide(numbers, chosen.high - chosen.low)
            ends = f"between {low} and {high}"
        said += f". {value} per decision (estimator: {chosen.label}), {ends}"
        return f"{said}; today's {figure(self.logging_average)}. {chosen.first_action}".rstrip()

    def _lift(self) -> str:
        """Return the lift over today's average, in percent where that is not about 0."""
        chosen, average, unit, scale = self.recommended, self.logging_average, "", 1.0
        if self.average_error is not None and abs(average) > 2 * self.average_error:
            unit, scale = "%", 100 / abs(average)
        known = () if chosen is None else (chosen.lift, chosen.lift_low, chosen.lift_high)
        numbers = [scale * one for one in known if one is not None]
        if len(numbers) < 3 or self._doubted:
            return ""
        lift, low, high = as_wide(numbers, numbers[2] - numbers[1], signed=True)
        return f": {lift}{unit} ({low}{unit} to {high}{unit})"

    def tables(self) -> list[TextTable]:
        """Return tables of the checks, the candidates and the worlds."""
        log, chosen = self.log, self.recommended
        title = (
            f"{self.verdict} | {self.target} | {log['rows']:,} rows, {log['actions']:,} actions"
        )
        label = "" if chosen is None else chosen.label
        candidates = []
        for one in self.ranked():
            best = one["label"] == label
            # The interval of the recommended one is that of the verdict.
            ends = (one["low"], one["high"])
            if chosen and best and chosen.value is not None:
                ends = (chosen.low, chosen.high)
            withheld = chosen is not None and chosen.value is None
            shade: Style = "dim" if withheld else "good" if best else ""
            name = Cell(f"{one['label']}{' *' * best}", style=shade)
            rank = MISSING if one["rank"] is None else str(one["rank"])
            on_worlds = (
                figure(one["rmse"]),
                rank,
                str(one["worlds_best"]),
                percent(one["coverage"]),
            )
            numbers = [figure(one["value"]), span(*ends)]
            grey: Style = "dim" if withheld else ""
            entries = [Cell(text, style=grey) for text in numbers]
            candidates.append(cells(name, *entries, *on_worlds))
        worlds = tuple(
            cells(
                *(world.name, str(world.replicates), figure(world.likeness, 2)),
                *(world.best or MISSING, figure(world.rmse.get(label))),
            )
            for world in self.worlds
        )
        failed = dict.fromkeys(f"{one.name}: {one.message}" for one in self.worlds if one.message)
        shown = [
            findings_table(title, self.checks, [] if worlds else self.notes),
            TextTable(
                title="candidates",
                columns=_CANDIDATE_COLUMNS if worlds else _CANDIDATE_COLUMNS[:3],
                rows=tuple(one if worlds else one[:3] for one in candidates),
                notes=(
                    *([_CANDIDATES_LEGEND] if worlds else []),
                    f"chosen by: {self.rule}",
                    *shared_notes(
                        ("", row.label, row.message) for row in self.rows if row.value is None
                    ),
                ),
            ),
        ]
        if worlds:
            title = "world made from the log"
            columns = (
                TableColumn(key="name", title=title, right=False, overflow="fold"),
                TableColumn(key="replicates", title="data sets"),
                TableColumn(key="likeness", title="AUC against the log"),
                TableColumn(key="best", title="best", right=False),
                TableColumn(key="rmse", title="error"),
            )
            notes = (_WORLDS_LEGEND, *failed, *self.notes)
            shown.append(TextTable(title="evidence", columns=columns, rows=worlds, notes=notes))
        if self.by:
            shown.append(segments_table(f"{self.target} by {self.by}", self.segments))
        return shown


@dataclass(frozen=True, repr=False)
class PoliciesAdvice(LogResult):
    """Advice on each of a log's policies, and which of them wins; shown, it is a table.

    Parameters
    ----------
    policies : the advice on each, the largest value first.
    shortlist : the policies compared; without intervals where probabilities are unknown.
    """

    policies: Sequence[Advice]
    shortlist: Shortlist

    @property
    def exit_code(self) -> int:
        """0; 3 where no candidate has a value for any policy."""
        return min(one.exit_code for one in self.policies)

    def contents(self) -> dict[str, Any]:
        """Return the documents of all policies and of the shortlist, and the exit code."""
        answers = [one.as_json() for one in self.policies]
        return {
            **answers[0],
            "answers": answers,
            "policies": answers,
            "shortlist": self.shortlist.as_json(),
            "exit_code": self.exit_code,
        }

    def plot(self) -> Any:
        """Return the policies' values and intervals as an Altair chart, the first one marked.

        Raises
        ------
        UsageError : the extra ``report`` is not installed.
        """
        return plot_values(self.lines(), self.policies[0].logging_average, "")

    def lines(self) -> list[dict[str, Any]]:
        """Return the lines of the chart: the recommended value of each policy."""
        found = [(one.target, one.recommended) for one in self.policies if _value(one) is not None]
        names = ("value", "low", "high")
        return [
            {"estimator": policy, "policy": "", "chosen": place == 0}
            | {name: getattr(one, name) for name in names}
            for place, (policy, one) in enumerate(found)
        ]

    def opening(self, *, several: bool = False) -> str:
        """Return which policies may be the best, in one sentence."""
        # Of several rewards less may be better, as of a cost.
        return self.shortlist.summary("highest" if several else "best")

    def tables(self) -> list[TextTable]:
        """Return the shortlist with the verdict on each policy."""
        first, *_ = self.policies
        log = first.log
        verdicts = {
            one.target: Cell(one.verdict, style=_VERDICT_STYLES[one.verdict])
            for one in self.policies
        }
        actions = shared_notes(
            ("", one.target, one.recommended.first_action if one.recommended else one.reasons[0])
            for one in self.policies
        )
        table = self.shortlist.table(verdicts)
        shown = replace(
            table,
            title=f"which policy wins | {log['rows']:,} rows, {log['actions']:,} actions"
            f" | logged average {figure(first.logging_average)}",
            notes=(table.notes[0], *actions, *table.notes[1:]),
        )
        return [shown, *(one.tables()[-1] for one in self.policies if one.by)]


@each_reward
@short_errors
def advise(
    log: LogData,
    *,
    target: str | None = None,
    simulate: bool = False,
    worlds: Sequence[str] | None = None,
    replicates: int | None = None,
    budget: float | None = 300.0,
    today_share: float = SHARE,
    candidates: Sequence[str] | None = None,
    by: str | None = None,
    executor: Executor | None = None,
    on_event: Callable[[Event], None] = lambda event: None,
    observe: Observer | None = None,
) -> Advice | PoliciesAdvice:
    """Judge whether a log can answer what a policy would earn, by which estimator, how wrong.

    The recommended estimator is the one that did best on drawn worlds, whatever the log; it and
    its panel are run on the log, and their disagreement widens the interval. Of several policies
    each is judged, and they are compared as by `shortlist`.

    Parameters
    ----------
    log : from `Log.read` or `Log.from_frame`.
    target : name of the policy; all of the log's where None.
    simulate : whether candidates are also run on worlds made from the log, whose true values are
        known; they never change recommendation or verdict. For one policy.
    worlds : makers of worlds, such as ``pseudo-reward[reward_model=boosting]``; they are made
        where some are given.
    replicates : data sets of each world.
    budget : seconds for the worlds, None for no limit; whole data sets that have ended count.
    today_share : of the rows to log next, the share that is logged as today.
    candidates : selectors of the estimators to run; the recommended one and its panel by default.
    by : a column of the log; its at most 20 levels are segments with a value each.
    executor : where trials run; by default this process, where nothing can be ended from outside.
    on_event : called with each event of the trials on the log.
    observe : called with all trials on worlds; its context manager is told their events.

    Raises
    ------
    UsageError : a policy, a candidate, a world or a number is unknown or wrong.
    """
    simulate = simulate or worlds is not None
    policies = [log.policy_name(target)] if simulate or target is not None else list(log.targets)
    replicates = advice_worlds.REPLICATES if replicates is None else replicates
    if replicates < 1:
        msg = f"replicates {replicates} is not positive"
        raise UsageError(msg)
    cut = None if by is None else segment_codes(log, by)
    log = replace(log, targets={name: log.targets[name] for name in policies})
    rules = {name: recommendation_for(log, name) for name in policies}
    listed = [text for rule in rules.values() for text in rule.estimators]
    if any(log.weights(name) is not None for name in policies):
        listed += estimation.COMPARED
    pairs = estimation.estimator_pairs(
        dict.fromkeys(listed) if candidates is None else candidates, typed=candidates is not None
    )
    panel: list[estimation.EstimatorPair] = []
    seen = log.n
    if (
        candidates is None
        and log.n > PART_FROM
        and not any(rule.errors for rule in rules.values())
    ):
        pairs, panel = pairs[:1], pairs[1:]
        if all(log.agreement(name) is not None for name in policies):
            # Its weights tell the effective sample size where propensities do not.
            panel = [pair for pair in panel if pair[0].id != _LEARNED_SIZE]
    specs = [spec for spec, _ in (*pairs, *panel)]
    compared = None
    evidence: list[advice_verdict.WorldFigures] = []
    notes: list[str] = []
    with stored_log(log) as folder:
        made: list[advice_worlds.World] = []
        if simulate:
            rows = advice_worlds.WORLD_ROWS if log.n > advice_worlds.WORLD_ROWS else None
            made = advice_worlds.made_worlds(policies[0], folder, worlds, rows)
        checked = None if executor is None else _aside(lambda: findings_of(log))
        records = estimation.run_on_log(log, pairs, folder, 0, executor, on_event)
        if panel:
            part = log.part(estimation.some_units(log, PART_ROWS, 0))
            seen = part.n
            with stored_log(part) as other:
                more = estimation.run_on_log(part, panel, other, 0, executor, on_event)
            records = {name: [*own, *more[name]] for name, own in records.items()}
            named, asked = (form.join(spec.id for spec in specs[1:]) for form in (", ", " --est "))
            notes.append(
                f"on {seen:,} of {log.n:,} rows, drawn by unit, since they take long and widen "
                f"no interval: {named}; on all rows: --est {asked}"
            )
        if made:
            working = _working(specs, records[policies[0]])
            params = {"folder": str(folder), "policy": policies[0]}
            likeness = replace(advice_worlds.LIKENESS, params=params)
            trials = advice_verdict.plan_trials(made, list(working.values()), likeness, replicates)
            on_worlds: dict[str, TrialRecord] = {}
            if working:
                progress: Any = contextlib.nullcontext() if observe is None else observe(trials)
                with progress:
                    for event in estimation.trial_events(trials, executor, run_trial, budget):
                        if observe is not None:
                            progress.handle(event)
                        if isinstance(event, Finished):
                            on_worlds[event.record.key] = event.record
                if budget is not None and not {trial.key for trial in trials} <= on_worlds.keys():
                    notes.append(
                        f"the budget of {format_duration(budget)} ended before all data sets of "
                        "the worlds; --budget gives more"
                    )
            evidence = [
                advice_verdict.world_figures(world, working, on_worlds, replicates, likeness)
                for world in made
            ]
        labels = distinct_labels(specs)
        against = {
            name: estimation.contradictions(
                [
                    estimation.estimate_row(
                        record,
                        label,
                        advice_verdict.LEVEL,
                        "asymptotic",
                        rules[name],
                        "",
                        units=log.n_units,
                    )
                    for record, label in zip(records[name], labels, strict=True)
                ],
                estimation.terms_of(records[name], labels, folder),
                unit_of(log),
            )
            for name in policies
        }
        segments = estimation.segments_by_policy(
            log, cut, specs, records, folder, advice_verdict.LEVEL
        )
        rule, *others = rules.values()
        same = bool(rule.errors) and all(other is rule for other in others)
        if others and same and candidates is None:
            compared = shortlist_of(log, rule, specs, records, folder)
    findings = findings_of(log) if checked is None else checked.result()
    advice = [
        _advice_on(
            replace(log, targets={name: log.targets[name]}),
            rules[name],
            specs,
            records[name],
            [replace(one, policy=None) for one in findings if one.policy in (None, name)],
            against[name],
            evidence,
            notes,
            today_share,
            executor,
            [spec for spec, _ in panel],
            seen,
        )
        for name in policies
    ]
    if by is not None:
        stated = (one.recommended is not None and one.recommended.value is None for one in advice)
        advice = [
            replace(one, by=by, segments=() if withheld else segments[one.target])
            for one, withheld in zip(advice, stated, strict=True)
        ]
    advice.sort(key=lambda one: math.inf if (value := _value(one)) is None else -value)
    if len(advice) == 1:
        return advice[0]
    values = [(one.target, _value(one)) for one in advice]
    withheld = any(one.recommended and one.recommended.value is None for one in advice)
    if compared is None or compared.winner is None or withheld:
        return PoliciesAdvice(advice, values_alone(log, values))
    # What cannot be compared has the value of its own advice.
    own = dict(values)
    shown = [replace(one, value=own[one.name]) for one in compared.policies if one.value is None]
    valued = [one for one in compared.policies if one.value is not None]
    return PoliciesAdvice(advice, replace(compared, policies=(*valued, *shown)))


def _aside(task: Callable[[], Any]) -> Future[Any]:
    """Start a task beside this thread; nothing waits for it at the end."""
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(task())
        except BaseException as exc:
            future.set_exception(exc)

    threading.Thread(target=run, daemon=True).start()
    return future


def _value(advice: Advice) -> float | None:
    return None if advice.recommended is None else advice.recommended.value


def _working(specs: Sequence[PluginSpec], records: Sequence[TrialRecord]) -> dict[str, PluginSpec]:
    """Return the candidates with a value, by label."""
    found = zip(distinct_labels(specs), specs, records, strict=True)
    return {label: spec for label, spec, record in found if record.status is Status.OK}


def _advice_on(
    log: LogData,
    rule: Recommendation,
    specs: Sequence[PluginSpec],
    records: Sequence[TrialRecord],
    findings: Sequence[Finding],
    against: Sequence[str],
    evidence: Sequence[advice_verdict.WorldFigures],
    notes: Sequence[str],
    today_share: float,
    executor: Executor | None,
    on_part: Container[PluginSpec],
    seen: int,
) -> Advice:
    """Return the advice on a log's only policy, from its candidates' trials."""
    (policy,) = log.targets
    labels, working = distinct_labels(specs), _working(specs, records)
    chosen = _chosen(rule, working)
    level, few = advice_verdict.LEVEL, few_rewards(log, policy, 1.0, records)
    rows = [
        estimation.estimate_row(record, label, level, "asymptotic", rule, few, units=log.n_units)
        for label, record in zip(labels, records, strict=True)
    ]
    rows = [
        estimation.of_sample(row, seen) if spec in on_part else row
        for row, spec in zip(rows, specs, strict=True)
    ]
    rows, found, said = estimation.with_disagreement(
        rows, specs, rule, log, policy, level, records
    )
    figures = advice_verdict.candidate_figures(evidence, list(working)) if working else {}
    best = next((row for row in rows if row.label == chosen), None)
    average_error = standard_error(log.reward_terms, unit_of(log))
    recommended = None
    if best is not None and best.value is not None:
        recommended = _recommended(best, rows, specs, rule, found, average_error)
        expected = figures.get(best.label, advice_verdict.CandidateFigures())
        recommended = replace(
            recommended, expected_rmse=expected.rmse, expected_coverage=expected.coverage
        )
    weights = log.weights(policy)
    largest = 0.0 if weights is None else float(weights.max())
    known = log.propensity is not None or log.estimated_propensity
    checks = advice_verdict.verdict_checks(
        findings,
        {row.label: row for row in rows},
        chosen,
        log.n,
        over_weight=log.n / largest if largest > 0 else None,
        interval=None if recommended is None else recommended.interval,
        gives=_GIVES if known and log.targets[policy].matrix is None else "",
        against=against,
        learned_from=seen,
    )
    verdict, reasons = advice_verdict.verdict_of(checks)
    if recommended is not None:
        recommended = replace(recommended, first_action=advice_verdict.first_action(checks))
    experiment = None
    if (
        verdict == "run-an-experiment"
        and recommended is not None
        and recommended.value is not None
    ):
        spec, value = working[recommended.label], recommended.value
        experiment = next_log(log, policy, spec, value, share=today_share, executor=executor)
        notes = [*notes, *([] if experiment is None else [experiment.sentence()])]
    if recommended is not None and estimation.withheld_by(findings, policy):
        stated = ("value", "low", "high", "interval", "stated_coverage", "lift", "lift_low")
        empty: dict[str, Any] = dict.fromkeys((*stated, "lift_high"))
        recommended = replace(recommended, **empty)
    return Advice(
        log=log.facts(),
        target=policy,
        logging_average=float(log.reward_terms.mean()),
        average_error=average_error,
        verdict=verdict,
        reasons=reasons,
        recommended=recommended,
        rule=f"always {rule.center}: no rule that adapts to the log did better in our benchmark; "
        f"chosen by a rule that was written first, confirmed on {rule.worlds} other settings",
        rows=rows,
        candidates=figures,
        worlds=evidence,
        checks=checks,
        experiment=experiment,
        notes=(*notes, said, *log.notes, estimation.CONFOUNDING),
    )


def _chosen(rule: Recommendation, working: Mapping[str, PluginSpec]) -> str | None:
    """Return the label of the recommended estimator, or of the first in its panel that works."""
    for text in rule.estimators:
        wanted = estimation.resolve_one(text).identity_json
        for label, spec in working.items():
            if spec.identity_json == wanted:
                return label
    return next(iter(working), None)


def _recommended(
    best: EstimateRow,
    rows: Sequence[EstimateRow],
    specs: Sequence[PluginSpec],
    rule: Recommendation,
    found: Stated,
    today: float | None,
) -> Recommended:
    """Return the recommendation with the interval that may be stated.

    Parameters
    ----------
    today : standard error of today's mean reward.
    """
    low, high, kind = found.low, found.high, found.kind
    value, lift = float(best.value or 0.0), best.lift
    lift_low = lift_high = None
    if kind == LIKELIHOOD and lift is not None and today is not None:
        lift_low, lift_high = found.lift(value, value - lift, today, advice_verdict.LEVEL)
    if kind == DISAGREEMENT:
        by_text = estimation.by_selector(rows, specs, rule)
        lift_low, lift_high = rule.interval(by_text, advice_verdict.LEVEL, lift=True)
    return Recommended(
        estimator=best.estimator,
        label=best.label,
        value=value,
        low=low,
        high=high,
        interval=kind,
        stated_coverage=found.coverage,
        lift=lift,
        lift_low=lift_low,
        lift_high=lift_high,
    )
