"""Advise on a log: `advise`, estimates on the log and on worlds made from it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ope_bench.contracts.estimate import CHOSEN_ESTIMATOR
from ope_bench.errors import UsageError
from ope_bench.execution import Event, Executor
from ope_bench.logs.advice.advice import Advice
from ope_bench.logs.advice.advice_values import Recommended
from ope_bench.logs.advice.figures import (
    LEVEL,
    CandidateFigures,
    WorldFigures,
    candidate_figures,
    plan_trials,
    world_figures,
)
from ope_bench.logs.advice.running import LIKENESS, Evidence, Observer, Progress, run_on_worlds
from ope_bench.logs.advice.settings import Choice, advice_settings
from ope_bench.logs.advice.verdict import Case, judge, verdict_of
from ope_bench.logs.advice.worlds import made_worlds
from ope_bench.logs.checking.checks import check_log
from ope_bench.logs.checking.findings import Finding
from ope_bench.logs.estimation import CONFOUNDING, estimate_row
from ope_bench.logs.log_trials import estimator_pairs, run_on_log
from ope_bench.logs.reading.log_data import LogData
from ope_bench.logs.result_rows import EstimateRow
from ope_bench.logs.storage import stored_log
from ope_bench.plugins.labels import distinct_labels
from ope_bench.plugins.spec import PluginSpec
from ope_bench.suites.nested import NestedEstimator
from ope_bench.suites.selector import format_selector
from ope_bench.trials.record import Trial, TrialRecord
from ope_bench.trials.status import Status
from ope_bench.units import format_duration

__all__ = ["advise"]

RULE = "select"
"""The estimator whose rules choose."""


class _Silent(contextlib.nullcontext[None]):
    """Shows nothing."""

    def handle(self, event: Event) -> None:
        """Ignore an event."""


def _unseen(trials: Sequence[Trial]) -> Progress:
    return _Silent()


def advise(
    log: LogData,
    *,
    target: str | None = None,
    worlds: Sequence[str] | None = None,
    replicates: int | None = None,
    budget: float | None = 300.0,
    candidates: Sequence[str] | None = None,
    executor: Executor | None = None,
    on_event: Callable[[Event], None] = lambda event: None,
    observe: Observer = _unseen,
) -> Advice:
    """Say whether a log can answer what a policy would earn, by which estimator, how wrong.

    Candidates are run on the log; a rule that was benchmarked chooses among them; then they are
    run on worlds made from the log, whose true values are known.

    Parameters
    ----------
    log : from `Log.read` or `Log.from_frame`.
    target : name of the policy; needed where the log has several.
    worlds : makers of worlds, such as ``pseudo-reward[reward_model=boosting]``; by default all.
    replicates : data sets of each world.
    budget : seconds for the worlds, None for no limit; whole data sets that have ended count.
    candidates : selectors of the estimators to choose among.
    executor : where trials run; by default this process, where nothing can be ended from outside.
    on_event : called with each event of the trials on the log.
    observe : called with all trials on worlds; returns what is told their events.

    Raises
    ------
    UsageError : a policy, a candidate, a world or a number is unknown or wrong.
    """
    name = log.policy_name(target)
    replicates = advice_settings().replicates if replicates is None else replicates
    if replicates < 1:
        msg = f"replicates {replicates} is not positive"
        raise UsageError(msg)
    log = replace(log, targets={name: log.targets[name]})
    with stored_log(log) as folder:
        made = made_worlds(name, folder, worlds)
        on_log = _run_candidates(log, name, folder, candidates, executor, on_event)
        evidence, working = Evidence(), on_log.working
        likeness = replace(LIKENESS, params={"folder": str(folder), "policy": name})
        if working:
            trials = plan_trials(made, list(working.values()), likeness, replicates)
            evidence = run_on_worlds(trials, budget=budget, executor=executor, observe=observe)
        figures = world_figures(made, working, evidence.records, replicates, likeness)
    return _assemble(log, name, on_log, figures, _budget_note(evidence, budget))


@dataclass(frozen=True)
class _OnLog:
    """Candidates on the log.

    Parameters
    ----------
    specs, records : by label.
    rule : what chooses, in words.
    chosen : label of what it chose; None where no candidate has a value.
    units : of the log.
    message : why the rule itself has no value.
    """

    specs: dict[str, PluginSpec]
    records: dict[str, TrialRecord]
    rule: str
    chosen: str | None
    units: int
    message: str = ""

    @property
    def working(self) -> dict[str, PluginSpec]:
        """The candidates that have a value."""
        return {
            label: spec
            for label, spec in self.specs.items()
            if self.records[label].status is Status.OK
        }

    def rows(self) -> list[EstimateRow]:
        """What the candidates say."""
        return [
            estimate_row(record, label, LEVEL, units=self.units)
            for label, record in self.records.items()
        ]


def _run_candidates(
    log: LogData,
    policy: str,
    folder: Path,
    given: Sequence[str] | None,
    executor: Executor | None,
    on_event: Callable[[Event], None],
) -> _OnLog:
    choice = _choice(log, policy)
    named = list(choice.candidates if given is None else given)
    pairs = estimator_pairs(named)
    texts = [_text(spec) for spec, _ in pairs]
    labels = distinct_labels([spec for spec, _ in pairs])
    rule = format_selector(RULE, {"candidates": choice.ordered(texts), "by": choice.rule})
    every = [*pairs, *estimator_pairs(rule)]
    *found, chooser = run_on_log(log, every, folder, 0, executor, on_event)[policy]
    records = dict(zip(labels, found, strict=True))
    specs = {label: spec for label, (spec, _) in zip(labels, pairs, strict=True)}
    by_text = dict(zip(texts, labels, strict=True))
    chosen = by_text.get(str(chooser.diagnostics.get(CHOSEN_ESTIMATOR)))
    working = [label for label, record in records.items() if record.status is Status.OK]
    message = ""
    if chosen not in working:
        chosen = working[0] if working else None
        message = chooser.error_message or "the rule chose none of them"
    words = choice.words()
    return _OnLog(specs, records, words, chosen, log.n_units, message)


def _choice(log: LogData, policy: str) -> Choice:
    """Return the candidates and the rule for what the log gives."""
    settings_ = advice_settings()
    known = log.propensity is not None and log.targets[policy].action is None
    return settings_.known if known else settings_.samples


def _text(spec: PluginSpec) -> str:
    return NestedEstimator.of({spec.reference: dict(spec.params)}).text


def _assemble(
    log: LogData, policy: str, on_log: _OnLog, worlds: Sequence[WorldFigures], budget: str
) -> Advice:
    rows, chosen = on_log.rows(), on_log.chosen
    candidates = candidate_figures(worlds, list(on_log.working)) if on_log.working else {}
    checks = judge(
        Case(
            checks=[_about(one, policy) for one in check_log(log).findings],
            rows={row.label: row for row in rows},
            worlds=worlds,
            candidates=candidates,
            chosen=chosen,
            n=log.n,
        )
    )
    verdict, reasons = verdict_of(checks)
    return Advice(
        log=log.facts(),
        target=policy,
        logging_average=float(log.reward.mean()),
        verdict=verdict,
        reasons=reasons,
        recommended=_recommended(rows, candidates, chosen),
        rule=on_log.rule + (f", which failed ({on_log.message})" if on_log.message else ""),
        rows=rows,
        candidates=candidates,
        worlds=worlds,
        checks=checks,
        notes=tuple(note for note in (budget, *log.notes, CONFOUNDING) if note),
    )


def _about(finding: Finding, policy: str) -> Finding:
    """Return a finding under a name without the policy's."""
    return replace(finding, name=finding.name.removeprefix(f"{policy}: "))


def _recommended(
    rows: Sequence[EstimateRow], candidates: Mapping[str, CandidateFigures], chosen: str | None
) -> Recommended | None:
    row = next((one for one in rows if one.label == chosen), None)
    if row is None or row.value is None:
        return None
    figures = candidates.get(row.label, CandidateFigures())
    return Recommended(
        estimator=row.estimator,
        label=row.label,
        value=row.value,
        low=row.low,
        high=row.high,
        expected_rmse=figures.rmse,
        expected_coverage=figures.coverage,
    )


def _budget_note(evidence: Evidence, budget: float | None) -> str:
    if evidence.complete or budget is None:
        return ""
    spent = format_duration(budget)
    return f"the budget of {spent} ended before all data sets of the worlds; --budget gives more"
