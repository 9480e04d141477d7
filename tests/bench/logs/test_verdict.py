"""The findings of an advice, each by its own figures; a value at a limit still passes."""

from __future__ import annotations

import importlib
import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from ope_bench.logs.advice_verdict import (
    WorldFigures,
    candidate_figures,
    first_action,
    plan_trials,
    verdict_checks,
    verdict_of,
    world_figures,
)
from ope_bench.logs.advice_worlds import World
from ope_bench.logs.finding import Check, Finding
from ope_bench.logs.result import EstimateRow
from ope_bench.trials.record import Trial, TrialRecord
from ope_bench.trials.status import Status
from support.stored_records import METHOD, WORLD, record


def row(label: str, **facts: Any) -> EstimateRow:
    known: dict[str, Any] = dict.fromkeys(EstimateRow.__dataclass_fields__) | {
        "estimator": label,
        "label": label,
        "params": {},
        "status": "ok",
        "value": 1.0,
        "low": 0.8,
        "high": 1.2,
        "level": 0.95,
        "standard_error": 0.1,
        "access": (),
    }
    return EstimateRow(**(known | facts))


def world(name: str, **facts: Any) -> WorldFigures:
    known: dict[str, Any] = {
        "maker": "redrawn",
        "likeness": 0.5,
        "replicates": 5,
        "rmse": {"ipw": 1.0, "dr": 1.0},
        "held": {"ipw": 19, "dr": 20},
        "intervals": {"ipw": 20, "dr": 20},
    }
    return WorldFigures(name=name, **(known | facts))


def finding(name: str, **changes: Any) -> Finding:
    """One finding on two candidates, of which ipw is recommended."""
    known: dict[str, Any] = {
        "checks": (),
        "rows": {"ipw": row("ipw"), "dr": row("dr")},
        "chosen": "ipw",
        "n": 200,
        "interval": "disagreement",
    }
    return next(one for one in verdict_checks(**(known | changes)) if one.name == name)


def test_support_that_nothing_tells_is_none():
    found = finding("unsupported mass")
    assert (found.value, found.passed, found.decisive, found.message) == (
        None, False, True, "unknown",
    )  # fmt: skip


def test_estimators_that_contradict_each_other_cost_the_trust():
    assert finding("contradiction").passed is True
    found = finding("contradiction", against=["a and b differ"])
    assert (found.passed, found.decisive, found.message) == (False, False, "a and b differ")


@pytest.mark.parametrize(("size", "passed"), [(9.9, None), (10.0, False)])
def test_a_handful_of_rows_contradicts_nothing(size, passed):
    checks = (Finding(check=Check.EFFECTIVE_SIZE, value=size, passed=False, message="few"),)
    found = finding("contradiction", against=["a and b differ"], checks=checks)
    assert found.passed is passed
    assert found.message.startswith("a and b differ")
    assert finding("contradiction", checks=checks).passed is True


@pytest.mark.parametrize(
    ("own", "other", "size"),
    [(0.25, 0.1, 50.0), (0.1, 0.9, 20.0), (None, 0.25, 50.0), (0.5, None, 100.0)],
)
def test_the_weights_of_the_recommended_or_the_worst_tell_the_size(own, other, size):
    rows = {"ipw": row("ipw", ess_fraction=own), "dr": row("dr", ess_fraction=other)}
    found = finding("effective sample size", rows=rows)
    assert (found.value, found.limit, found.passed) == (size, 30.0, size >= 30)
    assert found.message.startswith(f"{size:.0f} of 200 rows")


def test_without_a_recommended_one_the_smallest_share_counts():
    rows = {"ipw": row("ipw", ess_fraction=0.5), "dr": row("dr", ess_fraction=0.125)}
    assert finding("effective sample size", rows=rows, chosen=None).value == 25.0


def test_candidates_with_a_value_are_counted():
    rows = {"ipw": row("ipw"), "dr": row("dr", value=None), "dm": row("dm", value=0.0)}
    found = finding("an estimate", rows=rows)
    assert (found.value, found.limit, found.passed) == (2.0, 1.0, True)
    assert found.message == "2 of 3 candidates have a value"
    assert finding("an estimate", rows=rows, chosen=None).passed is False


def test_an_interval_is_stated_or_not():
    assert finding("an interval").passed is True
    assert finding("an interval", interval=None).passed is False


def test_checks_of_the_log_follow_once_each_without_mere_information():
    checks = (
        Finding(check=Check("unsupported mass"), value=0.0, passed=True, message="of the log"),
        Finding(check=Check("drift"), passed=False, message="much"),
        Finding(check=Check.UNSEEN, message="200"),
    )
    rows = {"ipw": row("ipw", value=None)}
    found = verdict_checks(checks, rows, chosen=None, n=200)
    assert [one.name for one in found] == [
        "unsupported mass",
        "effective sample size is known",
        "an estimate",
        "contradiction",
        "drift",
    ]
    assert found[0].message == "of the log"


def test_the_first_action_is_that_of_what_decides_then_of_what_is_most_urgent():
    def of(check: Check, **facts: Any) -> Finding:
        return Finding(check=check, passed=False, message="", **facts)

    drift, support = of(Check.CONTEXT_DRIFT, subjects=("x: y",)), of(Check.SUPPORT, far=True)
    weights = of(Check.MEAN_WEIGHT, withholds=True, cure="Swap them.")
    logging = of(Check.LOGGING)
    assert first_action([drift]) == "Look at: drift of context x: y."
    assert first_action([drift, logging]) == logging.first_action
    assert first_action([logging, support, drift]) == support.first_action
    assert first_action([support, weights]) == "Swap them."
    actions = of(Check.PROPENSITIES, subjects=("{of}", "b", "c"))
    assert " of {of} and b " in actions.first_action
    assert first_action([replace(drift, passed=True)]) == ""


@pytest.mark.parametrize(
    ("failed", "verdict"),
    [
        ([], "trust"),
        (["drift"], "caution"),
        (["drift", "an estimate"], "run-an-experiment"),
        (["effective sample size"], "caution"),
        (["n / max weight"], "caution"),
        (["unsupported mass"], "run-an-experiment"),
    ],
)
def test_decisive_checks_ask_for_an_experiment(failed, verdict):
    names = ["unsupported mass", "effective sample size", "an estimate", "drift"]
    names += ["n / max weight"]
    checks = [
        Finding(check=Check(one), passed=one not in failed, message="so", far="mass" in one)
        for one in names
    ]
    said, reasons = verdict_of(checks)
    assert said == verdict
    expected = [f"{one}: so" for one in names if one in failed] or ["all 5 checks passed"]
    assert reasons == expected


def test_worlds_without_every_candidate_count_for_none():
    partial = world("b", rmse={"ipw": 0.5})
    figures = candidate_figures([partial], ["ipw", "dr"])
    assert (figures["ipw"].rmse, figures["ipw"].rank, figures["dr"].worlds_best) == (None, None, 0)
    assert (partial.best, world("c", rmse={}).best) == ("ipw", None)


def test_sub_samples_count_where_there_is_nothing_else():
    only = world("a", maker="resample", rmse={"ipw": 3.0, "dr": 4.0})
    figures = candidate_figures([only], ["ipw", "dr"])
    assert (figures["ipw"].rmse, figures["ipw"].coverage) == (3.0, 19 / 20)
    none = replace(only, intervals={"ipw": 0, "dr": 0}, held={"ipw": 0, "dr": 0})
    assert candidate_figures([none], ["ipw", "dr"])["ipw"].coverage is None


MADE = World("w", "redrawn", WORLD)
CANDIDATES = {"ipw": METHOD, "dr": replace(METHOD, id="dr", reference="dr")}
LIKENESS = replace(METHOD, id="likeness", reference="likeness")


def done(label: str, replicate: int, **facts: Any) -> TrialRecord:
    known = {"truth_expected": 1.0, "logging_average": 0.5, "standard_error": 0.25}
    return record(Trial(WORLD, CANDIDATES[label], replicate), **(known | facts))


def figures_of(*records: TrialRecord) -> WorldFigures:
    by_key = {one.key: one for one in records}
    return world_figures(MADE, CANDIDATES, by_key, 3, LIKENESS)


@pytest.mark.parametrize("truth_error", [None, 0.5])
def test_a_world_counts_the_replicates_that_all_candidates_ended(truth_error):
    failed = {"status": Status.POSITIVITY, "estimate": None, "standard_error": None}
    facts = {"truth_expected_se": truth_error}
    found = figures_of(
        done("ipw", 0, estimate=1.25, **facts),
        done("dr", 0, estimate=2.0, **facts),
        done("ipw", 1, estimate=0.25, **facts),
        # It counts with the error of the logging average.
        done("dr", 1, **failed, **facts),
        done("ipw", 2, estimate=9.0, **facts),
        record(Trial(WORLD, LIKENESS, 0), estimate=0.75),
    )
    more = truth_error**2 if truth_error else 0.0
    assert found.rmse["ipw"] == pytest.approx(math.sqrt((0.25**2 + 0.75**2) / 2 + more))
    assert found.rmse["dr"] == pytest.approx(math.sqrt((1.0 + 0.5**2) / 2 + more))
    # Ends are at a distance of 0.49.
    assert (found.held, found.intervals) == ({"ipw": 1, "dr": 0}, {"ipw": 2, "dr": 1})
    assert (found.name, found.maker, found.replicates, found.message) == ("w", "redrawn", 2, "")
    assert found.likeness == 0.75


@pytest.mark.parametrize(("units", "held"), [(None, 1), (5, 2), (1, 0)])
def test_coverage_on_a_world_is_that_of_the_intervals_of_its_number_of_units(units, held):
    """Ends are at 1.96 standard errors, and at 2.78 of 5 units."""
    found = figures_of(
        done("ipw", 0, estimate=1.6),
        done("dr", 0, estimate=1.0),
        done("ipw", 1, estimate=1.4),
        done("dr", 1, estimate=1.0),
        record(Trial(WORLD, LIKENESS, 0), estimate=0.75, diagnostics={"units": units}),
    )
    assert (found.held["ipw"], found.intervals["ipw"]) == (held, 0 if units == 1 else 2)


def test_coverage_on_a_world_is_that_of_the_estimators_own_intervals():
    own = {"interval_low": 0.9, "interval_high": 1.1, "interval_level": 0.95}
    wide = {"standard_error": 9.0, "interval_kind": "asymptotic", **own}
    found = figures_of(done("ipw", 0, estimate=1.0, **wide), done("dr", 0, estimate=2.0, **wide))
    assert (found.held, found.intervals) == ({"ipw": 1, "dr": 1}, {"ipw": 1, "dr": 1})
    missed = {**wide, "truth_expected": 1.2}
    found = figures_of(
        done("ipw", 0, estimate=1.0, **missed), done("dr", 0, estimate=1.0, **missed)
    )
    assert found.held == {"ipw": 0, "dr": 0}


def test_a_world_without_a_truth_says_why():
    lost = {"truth_expected": None, "status": Status.ERROR, "estimate": None}
    found = figures_of(*(done(one, 0, error_message="no room", **lost) for one in CANDIDATES))
    assert (found.replicates, found.rmse, found.message) == (0, {}, "no room")
    assert (found.likeness, found.best) == (None, None)
    assert figures_of().message == ""


def test_the_likeness_is_asked_for_once_on_each_world():
    worlds = [MADE, replace(MADE, spec=replace(WORLD, params={}))]
    planned = plan_trials(worlds, list(CANDIDATES.values()), LIKENESS, 2)
    assert [
        (one.replicate, one.environment.params == {}, one.estimator.id) for one in planned
    ] == [
        *((0, other, name) for other in (False, True) for name in ("ipw", "dr", "likeness")),
        *((1, other, name) for other in (False, True) for name in ("ipw", "dr")),
    ]


def test_a_value_of_exactly_nothing_is_told_as_such() -> None:
    best: Any = SimpleNamespace(estimator="ipw", label="ipw", value=0.0, lift=None)
    stated: Any = SimpleNamespace(low=None, high=None, kind="", coverage=None)
    nothing: Any = None
    assert (
        importlib.import_module("ope_bench.logs.advise")
        ._recommended(best, [], [], nothing, stated, None)
        .value
        == 0.0
    )
