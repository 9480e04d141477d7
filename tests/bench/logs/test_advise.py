"""`advise`: the verdict's rules, the evidence by hand, the budget, and what every output says."""

from __future__ import annotations

import json
import math
import re
import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ope_bench import Log, TargetPolicy, advise, estimate, shortlist
from ope_bench.base.canonical import plain
from ope_bench.base.errors import UsageError
from ope_bench.cli.app import invoke
from ope_bench.execution import Finished
from ope_bench.execution.local import LocalExecutor
from ope_bench.logs.advice_verdict import (
    CandidateFigures,
    WorldFigures,
    candidate_figures,
    verdict_checks,
    verdict_of,
)
from ope_bench.logs.advice_worlds import made_worlds
from ope_bench.logs.advise import _recommended
from ope_bench.logs.estimation import CONFOUNDING, contradictions, resolve_one
from ope_bench.logs.finding import Check, Finding
from ope_bench.logs.log_data import stored_log
from ope_bench.logs.next_log import next_log
from ope_bench.logs.recommendation import Stated, recommendation_for, recommendations
from ope_bench.logs.result import EstimateRow
from support.paths import RESULTS
from support.small_logs import discrete, frame_of, log_of, table_of, write_small

FAST = ["ipws", "dm[regressor=ridge]", "dr[regressor=ridge]"]
WORLDS = ["pseudo-reward[reward_model=[linear,constant]]", "redrawn", "resample[kept=0.5]"]


def row(label: str = "ipws", **facts: Any) -> EstimateRow:
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
        "ess_fraction": 0.5,
        "access": (),
    }
    return EstimateRow(**(known | facts))


def world(name: str = "w", maker: str = "redrawn", **facts: Any) -> WorldFigures:
    known: dict[str, Any] = {
        "likeness": 0.5,
        "replicates": 10,
        "rmse": {"ipws": 0.1, "dr": 0.11},
        "held": {"ipws": 9, "dr": 10},
        "intervals": {"ipws": 10, "dr": 10},
    }
    return WorldFigures(name=name, maker=maker, **(known | facts))


GOOD = (
    Finding(check=Check("unsupported mass"), value=0.0, limit=0.1, passed=True, message="none"),
    Finding(
        check=Check("effective sample size"), value=500.0, limit=50, passed=True, message="500"
    ),
    Finding(check=Check("mean weight"), value=1.0, limit=1, passed=True, message="1"),
    Finding(check=Check("drift"), message="not checked"),
)


def case(**changes: Any) -> dict[str, Any]:
    known: dict[str, Any] = {
        "checks": GOOD,
        "rows": {"ipws": row(), "dr": row("dr", value=1.05)},
        "chosen": "ipws",
        "n": 1000,
        "over_weight": 100.0,
        "interval": "disagreement",
    }
    return known | changes


def checks(**findings: Any) -> tuple[Finding, ...]:
    """The good checks, some of them replaced; None leaves one out."""
    named = {one.name: one for one in GOOD}
    for name, change in findings.items():
        key = name.replace("_", " ")
        named[key] = None if change is None else replace(named[key], **change)
    return tuple(one for one in named.values() if one is not None)


FAILED = {"passed": False}


@pytest.mark.parametrize(
    ("changes", "verdict", "reason"),
    [
        ({}, "trust", "all"),
        (
            {"checks": checks(unsupported_mass={"value": 0.11, "far": True, **FAILED})},
            "run-an-experiment",
            "unsupported mass",
        ),
        (
            {"checks": checks(effective_sample_size={"value": 49.0, **FAILED})},
            "caution",
            "effective sample size",
        ),
        (
            {"checks": checks(effective_sample_size={"value": 9.0, "far": True, **FAILED})},
            "run-an-experiment",
            "effective sample size",
        ),
        ({"over_weight": 4.9}, "caution", "n / max weight"),
        ({"over_weight": 5.0}, "trust", "all"),
        ({"over_weight": None}, "trust", "all"),
        (
            {"checks": checks(unsupported_mass=None)},
            "run-an-experiment",
            "unsupported mass: unknown",
        ),
        # Without propensities the estimated weights tell the effective sample size.
        ({"checks": checks(effective_sample_size=None)}, "trust", "all"),
        (
            {"checks": checks(effective_sample_size=None), "n": 50},
            "caution",
            "25 of 50 rows",
        ),
        (
            {
                "checks": checks(effective_sample_size=None),
                "rows": {"ipws": row(ess_fraction=None)},
            },
            "caution",
            "unknown: no estimator here weights",
        ),
        ({"checks": checks(mean_weight=FAILED)}, "caution", "mean weight"),
        ({"chosen": None, "rows": {"ipws": row(value=None)}}, "run-an-experiment", "an estimate"),
        ({"interval": None}, "caution", "an interval"),
        ({"against": ["ipws and dr differ"]}, "caution", "contradiction: ipws"),
        # Other candidates widen the interval; they cost no trust.
        ({"rows": {"ipws": row(), "dr": row("dr", value=1.21)}}, "trust", "all"),
    ],
)
def test_the_verdict_follows_its_rules(changes, verdict, reason):
    said, reasons = verdict_of(verdict_checks(**case(**changes)))
    assert said == verdict, reasons
    assert any(reason in one for one in reasons), reasons


def test_figures_over_worlds_are_those_by_hand():
    worlds = [
        world("a", rmse={"ipws": 0.3, "dr": 0.1}, held={"ipws": 5, "dr": 10}),
        world("b", rmse={"ipws": 0.4, "dr": 0.8}),
        # Sub-samples have an order, and no error of the whole log.
        world("c", "resample", rmse={"ipws": 9.0, "dr": 1.0}, held={"ipws": 0, "dr": 0}),
    ]
    found = candidate_figures(worlds, ["ipws", "dr"])
    assert found["ipws"] == CandidateFigures(
        rmse=math.sqrt((0.09 + 0.16) / 2),
        rank=1,
        worlds_best=1,
        coverage=14 / 20,
    )
    assert (found["dr"].rank, found["dr"].worlds_best) == (2, 2)
    assert candidate_figures([], ["ipws"]) == {"ipws": CandidateFigures()}


def test_the_error_of_an_estimated_truth_adds_to_every_error(log):
    """On sub-samples, by the trials' own truths."""
    from ope_bench import evaluate

    found = advise(log, worlds=["resample[kept=0.7]"], replicates=3, candidates=["ipw"])
    with stored_log(log) as folder:
        environment = f"logs[log={folder},maker=resample,kept=0.7,n_samples=null]"
        records = evaluate("ipw", environment, replicates=3)
    squares = [(one.estimate - one.truth_expected) ** 2 for one in records]
    errors = [one.truth_expected_se**2 for one in records]
    assert errors[0] > 0
    assert found.worlds[0].rmse["ipw"] == pytest.approx(np.sqrt(np.mean(squares) + errors[0]))


@pytest.fixture(scope="module")
def log() -> Log:
    return log_of(discrete(300))


@pytest.fixture(scope="module")
def advice(log):
    return advise(log, worlds=WORLDS, replicates=3, candidates=FAST)


def test_evidence_is_that_of_trials_on_the_worlds(log, advice):
    """The same trials, run and averaged here."""
    from ope_bench import evaluate

    with stored_log(log) as folder:
        (made, *_) = made_worlds("target", folder, WORLDS[:1])
        environment = f"logs[log={folder},maker=pseudo-reward,policy=target,n_samples=null]"
        records = evaluate(FAST, environment, replicates=3)
    for label in ("ipws", "dm", "dr"):
        errors = [
            one.estimate - one.truth_expected for one in records if one.trial.estimator.id == label
        ]
        rmse = float(np.sqrt(np.mean(np.square(errors))))
        assert advice.worlds[0].rmse[label] == pytest.approx(rmse, rel=1e-12)
    assert advice.worlds[0].name == made.name == "pseudo-reward linear"
    assert advice.worlds[0].replicates == 3
    # dm offers no interval, so none is counted.
    assert advice.worlds[0].intervals == {"ipws": 3, "dm": 0, "dr": 3}


def test_worlds_are_told_from_the_log_by_what_was_changed(log):
    """Rows of a constant reward are told apart where rewards are a function of the rows."""
    reward = 3.0 * np.asarray(log.context[:, 0]) + log.action
    clear = replace(log, reward=reward, reward_range=None)
    found = advise(clear, worlds=WORLDS[:1], replicates=1, candidates=FAST).worlds
    assert found[1].name == "pseudo-reward constant"
    assert found[1].likeness > 0.8 > found[0].likeness + 0.1


def test_the_recommended_estimator_is_the_center_of_its_panel(log):
    rule = recommendation_for(log, "target")
    found = advise(log)
    rows = dict(zip(rule.estimators, estimate(log, list(rule.estimators)), strict=True))
    assert len(found.rows) == len({*rule.estimators, "ipws", "sndr", "dr"})
    chosen = found.recommended
    assert (chosen.label, chosen.value) == (rule.center, rows[rule.center].value)
    panel = [rows[text].value for text in rule.panel]
    apart = rule.constant * (max(panel) - min(panel))
    held = rule.cell(log, "target").held
    assert (chosen.interval, chosen.stated_coverage) == ("disagreement", held)
    assert found.worlds == []
    assert found.exit_code == 0
    lifts = [rows[text] for text in rule.errors]
    error = max((lift.lift_high - lift.lift_low) / 2 for lift in lifts)
    assert chosen.lift_high - chosen.lift == pytest.approx(math.hypot(error, apart), rel=1e-3)


PAGE = (RESULTS / "recommendation.md").read_text(encoding="utf-8")


def test_the_interval_is_the_rule_that_the_page_states(log):
    """Another center, panel or constant than the page's gives another interval here."""
    found = re.search(
        r"`(\S+)` \+- .*?k = ([\d.]+); s the larger standard error of `(\S+)` and `(\S+)`"
        r".*?D the range of (.*?)\.",
        PAGE,
        re.DOTALL,
    )
    center, constant, *errors, panel = found.groups()
    names = re.findall(r"`(\S+?)`", panel)
    selectors = {"dm": "dm[cross_fit=5]"}
    asked = [selectors.get(name, name) for name in dict.fromkeys((center, *errors, *names))]
    rows = dict(zip(asked, estimate(log, asked), strict=True))
    values = [rows[selectors.get(name, name)].value for name in names]
    error = max(rows[name].standard_error for name in errors)
    half = 1.959964 * error, float(constant) * (max(values) - min(values))
    chosen = advise(log).recommended
    assert (chosen.label, chosen.value) == (center, rows[center].value)
    assert chosen.high - chosen.value == pytest.approx(math.hypot(*half), rel=1e-4)
    assert chosen.value - chosen.low == pytest.approx(math.hypot(*half), rel=1e-4)
    # Every part matters on this log.
    assert len({*values}) == len(names)
    assert min(half) > 0.05 * max(half)


def test_the_page_names_what_is_shipped():
    for rule in recommendations().values():
        assert f"`{rule.center}`" in PAGE


def test_made_worlds_change_neither_recommendation_nor_verdict(log):
    plain_advice, simulated = advise(log), advise(log, worlds=WORLDS[1:2], replicates=2)
    assert simulated.worlds
    assert simulated.verdict == plain_advice.verdict
    assert simulated.recommended.value == plain_advice.recommended.value
    assert plain_advice.recommended.expected_rmse is None
    assert simulated.recommended.expected_rmse > 0


def test_a_tiny_effective_sample_has_no_interval():
    tiny = discrete(12)
    found = advise(log_of(tiny))
    size = next(one for one in found.checks if one.name == "effective sample size")
    assert size.value < 10
    assert found.verdict == "caution"
    assert (found.recommended.low, found.recommended.high) == (None, None)
    assert found.recommended.first_action.startswith("Log ")


KEYS = {"schema", "verdict", "reasons", "recommended", "candidates", "worlds", "checks"}
CANDIDATE = {"estimator", "label", "rmse", "rank", "worlds_best", "coverage", "value"}
RECOMMENDED = {"estimator", "label", "value", "low", "high", "expected_rmse", "interval"}
RECOMMENDED |= {"stated_coverage", "first_action", "lift", "lift_low", "lift_high"}


def test_the_document_has_the_fixed_keys(advice):
    document = json.loads(json.dumps(advice.as_json(), allow_nan=False))
    assert set(document) >= KEYS
    assert "rows" not in document
    assert document["schema"] == 1
    assert set(document["recommended"]) == RECOMMENDED | {"expected_coverage"}
    assert all(set(one) >= CANDIDATE | {"low", "high"} for one in document["candidates"])
    assert [one["rank"] for one in document["candidates"]] == [1, 2, 3]
    for one in document["worlds"]:
        assert set(one) >= {"name", "maker", "likeness", "replicates"}
    for one in document["checks"]:
        assert set(one) >= {"name", "value", "limit", "passed"}
    assert CONFOUNDING in document["notes"]


def test_a_notebook_draws_values_and_marks_the_chosen_one(log, advice):
    spec = advice.plot().to_dict()
    (points,) = (lines for lines in spec["datasets"].values() if "estimator" in lines[0])
    assert [one["value"] for one in points] == [row.value for row in advice.rows]
    assert [one["estimator"] for one in points if one["chosen"]] == [advice.recommended.label]
    drawn = estimate(log, ["ipw"]).plot("target").to_dict()
    assert drawn["title"] == "target"
    with pytest.raises(KeyError):
        estimate(log, ["ipw"]).plot("other")


def test_a_notebook_shows_tables_and_gives_a_frame(advice, monkeypatch):
    assert advice._repr_html_().count("<table>") == 3
    assert CONFOUNDING.replace("'", "&#x27;") in advice._repr_html_()
    assert advice.recommended.label in repr(advice)
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=list))
    assert [one["rank"] for one in advice.to_pandas()] == [1, 2, 3]


def test_isolated_workers_give_the_same_numbers(log, advice):
    with LocalExecutor(1) as executor:
        found = advise(log, worlds=WORLDS, replicates=3, candidates=FAST, executor=executor)
    # Workers compute by kernels that every processor has, which round differently.
    ours, theirs = (
        plain(one.as_json(), lambda value: float(f"{value:.9g}")) for one in (found, advice)
    )
    assert ours == theirs


def test_a_budget_ends_the_worlds_and_says_so(log):
    with LocalExecutor(1) as executor:
        found = advise(
            log, worlds=WORLDS, replicates=500, candidates=FAST, executor=executor, budget=0.3
        )
    assert max(one.replicates for one in found.worlds) < 500
    assert any(re.search("budget of .* ended", note) for note in found.notes)
    assert advise(log, worlds=WORLDS, candidates=FAST, budget=0.0).recommended is not None


def test_an_executor_of_this_process_stops_between_trials(log):
    seen = []

    class Progress:
        def handle(self, event):
            seen.append(event)

        def __enter__(self):
            return self

        def __exit__(self, *exc):
            pass

    advise(
        log,
        worlds=WORLDS[2:],
        replicates=2,
        candidates=FAST,
        observe=lambda trials: Progress(),
    )
    # Three candidates twice, and one comparison with the log.
    assert len(seen) == 7
    assert all(isinstance(event, Finished) for event in seen)


def test_only_what_the_log_gives_is_asked_for():
    given = discrete(200)
    taken = given.target_policy.sample(given.context, np.random.default_rng(3))
    sampled = log_of(given, new=TargetPolicy(sampled=taken))
    found = advise(sampled, candidates=["dm-star[regressor=ridge]"], worlds=WORLDS, replicates=1)
    assert found.recommended.estimator == "dm-star"
    by_name = {one.name: one for one in found.worlds}
    assert by_name["redrawn"].replicates == 1
    assert by_name["resample kept=0.5"].replicates == 0
    assert "known by its actions only" in by_name["resample kept=0.5"].message


def test_a_log_that_nothing_can_use_has_no_recommendation(tmp_path, capsys):
    path = str(write_small(tmp_path))
    assert invoke(["advise", path, "--est", "dm-star", "--format", "json"]) == 3
    document = json.loads(capsys.readouterr().out)
    assert document["recommended"] is None
    assert document["verdict"] == "run-an-experiment"
    assert document["exit_code"] == 3


def test_the_command_says_all_within_eighty_columns(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    write_small(tmp_path)
    path = tmp_path / "log.yaml"
    arguments = [str(path), "--replicates", "1", "--worlds", "resample[kept=1]", "--jobs", "1"]
    assert invoke(["advise", *arguments]) == 0
    caught = capsys.readouterr()
    text = caught.out
    assert max(map(len, text.splitlines())) <= 80
    for one in ("run-an-experiment", "effective sample size", "not testable: ", "candidates"):
        assert one in text
    assert "worlds made from the log: " in caught.err
    assert str(tmp_path) not in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--worlds", "redraw"], "unknown maker of worlds 'redraw'; did you mean 'redrawn'"),
        (["--worlds", "redrawn[maker=resample]"], "'maker' is that of the log; leave it out"),
        (["--worlds", "resample[kept=2]"], "kept"),
        (["--target", "new"], "the log has no policy 'new'; it has: target"),
        (["--budget", "soon"], "'--budget': 'soon' is not a duration"),
        (["--est", "ipv"], "did you mean 'ipw'"),
        (["--report", "nowhere/page.html"], "--report: nowhere: no such folder"),
    ],
)
def test_a_mistake_is_one_line(arguments, said, tmp_path, capsys, monkeypatch):
    write_small(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert invoke(["advise", "log.yaml", *arguments]) == 2
    caught = capsys.readouterr()
    assert caught.err.count("\n") == 1
    assert said in caught.err
    assert caught.out == ""


@pytest.fixture(scope="module")
def several():
    """A log of three policies: as logged, the target policy, and always one action."""
    given = discrete(400)
    tables = {"today": table_of(given.logging_policy, given)}
    tables["new"] = table_of(given.target_policy, given)
    tables["one"] = np.tile([0.0, 1.0, 0.0, 0.0], (400, 1))
    return log_of(given, **{name: TargetPolicy(table=one) for name, one in tables.items()})


def test_of_several_policies_each_is_judged_as_it_is_alone_and_the_shortlist_ranks_them(several):
    found = advise(several)
    assert found.shortlist == shortlist(several)
    assert [one.target for one in found.policies] == [row.name for row in found.shortlist.policies]
    for one in found.policies:
        alone = advise(several, target=one.target).as_json()
        together = one.as_json()
        # A log's forms are those of all its policies.
        assert together == alone
    document = found.as_json()
    answers = [one.as_json() for one in found.policies]
    assert document["answers"] == answers
    assert {name: document[name] for name in answers[0]} == answers[0]
    assert document["shortlist"] == found.shortlist.as_json()
    assert "which policy wins" in repr(found)
    assert found._repr_html_().count("<table") == 1


def test_worlds_are_made_for_one_policy(several):
    with pytest.raises(UsageError, match=r"3 policies .*--target today"):
        advise(several, simulate=True)
    found = advise(several, target="new", candidates=["ipws"], worlds=WORLDS[2:], replicates=1)
    assert found.target == "new"


def small_log(target: dict[str, object]) -> Log:
    """60 rows in columns of a table, with these policies."""
    frame = frame_of(discrete(60))
    context = [name for name in frame if name[0] == "x"]
    return Log.from_frame(
        frame, context=context, action="a", reward="r", propensity="p", target=target
    )


def test_policies_that_are_known_in_part_have_no_shortlist(several):
    log = small_log({"known": "q", "drawn": {"action": "a"}})
    found = advise(log)
    assert found.shortlist.winner is None
    assert all(row.low is None for row in found.shortlist.policies)
    assert "needs propensities" in repr(found)
    assert {one.target for one in found.policies} == {"known", "drawn"}
    assert [line["estimator"] for line in found.lines()] == [
        one.target for one in found.policies if one.recommended is not None
    ]
    (table,) = found.tables()
    assert {row[0].text for row in table.rows} == {"known", "drawn"}


def test_of_policies_known_at_logged_actions_values_are_those_of_each_alone():
    """No model can be asked about all actions, so that nothing is compared."""
    log = small_log({"new": "q", "same": "p"})
    found = advise(log)
    alone = {name: advise(log, target=name).recommended.value for name in ("new", "same")}
    assert {row.name: row.value for row in found.shortlist.policies} == alone
    assert None not in alone.values()
    assert "of all actions" in repr(found)
    assert "of all actions" in shortlist(log).summary()
    whole = log_of(discrete(60)).targets["target"]
    mixed = replace(log, targets={**log.targets, "whole": whole})
    values = {row.name: (row.value, row.low is None) for row in advise(mixed).shortlist.policies}
    assert {name: values[name] for name in alone} == {one: (alone[one], True) for one in alone}
    assert not values["whole"][1]


def test_a_panel_that_widens_no_interval_sees_a_part_of_a_long_log(monkeypatch):
    rng = np.random.default_rng(4)
    n = 400
    x, a, new = rng.normal(size=n), rng.integers(2, size=n), rng.integers(2, size=n)
    reward = (rng.random(n) < 0.3 + 0.2 * a).astype(float)
    frame = {"x": x, "a": a, "r": reward, "p": np.full(n, 0.5), "new": new, "u": np.arange(n) // 4}
    names: dict[str, Any] = {"context": ["x"], "action": "a", "reward": "r", "unit": "u"}
    names |= {"propensity": "p", "target": TargetPolicy(action="new")}
    made = Log.from_frame(frame, **names)
    whole = advise(made)
    assert {row.estimator for row in whole.rows} == {"dm-star", "edm-star", "epws", "riesz"}
    monkeypatch.setattr("ope_bench.logs.advise.PART_FROM", n - 1)
    monkeypatch.setattr("ope_bench.logs.advise.PART_ROWS", 101)
    found = advise(made)
    # 25 units of four rows. Propensities tell the effective sample size, nothing learns it.
    messages = {row.estimator: row.message or "" for row in found.rows}
    assert set(messages) == {"dm-star", "edm-star", "riesz"}
    assert [one.startswith("on 100 random rows") for one in messages.values()] == [
        False,
        True,
        True,
    ]
    assert found.rows[0].value == whole.rows[0].value
    assert "on 100 of 400 rows" in " ".join(found.notes)
    sums = np.bincount(frame["u"], (a == new) / 0.5)
    size = next(one for one in found.checks if one.check is Check.EFFECTIVE_SIZE)
    assert size.value == pytest.approx(sums.sum() ** 2 / np.square(sums).sum())
    assert found.recommended is not None
    assert "target: {table: FILE}" in found.recommended.first_action
    # Without propensities nothing else tells it.
    del names["propensity"]
    alone = advise(Log.from_frame(frame, **names))
    assert "epws" in {row.estimator for row in alone.rows}
    learned = next(one for one in alone.checks if one.check is Check.EFFECTIVE_SIZE)
    assert "of 100 random rows" in learned.message


def test_a_candidate_without_a_value_has_its_reason_in_the_table():
    whole = discrete(60)
    log = log_of(whole, drawn=TargetPolicy(sampled=whole.action))
    found = advise(log, candidates=["ipws", "dm-star[regressor=ridge]", "dr"])
    silent = [row for row in found.rows if row.value is None]
    assert {row.label for row in silent} >= {"ipws", "dr"}
    _, table = found.tables()
    for row in silent:
        assert any(row.label in note and row.message in note for note in table.notes)


@pytest.mark.parametrize(
    ("options", "verdict", "better", "code"),
    [
        ([], "run-an-experiment", "cannot tell", 0),
        (["--fail-on", "run-an-experiment"], "run-an-experiment", "cannot tell", 1),
        (["--fail-on", "caution"], "caution", "better", 1),
        (["--fail-on", "run-an-experiment", "--require", "better"], "caution", "better", 0),
        (["--require", "better"], "trust", "cannot tell", 1),
        (["--fail-on", "caution", "--require", "better"], "trust", "better", 0),
    ],
)
def test_the_exit_code_is_what_a_pipeline_asked_for(
    options, verdict, better, code, tmp_path, monkeypatch, capsys
):
    path = write_small(tmp_path)
    found = advise(Log.read(path), candidates=["ipws"])
    lift = {"better": (0.1, 0.3), "cannot tell": (-0.1, 0.3)}[better]
    low, high = lift
    chosen = replace(found.recommended, lift=0.2, lift_low=low, lift_high=high)
    told = replace(found, verdict=verdict, recommended=chosen, checks=())
    assert told.better == better
    doubt = Finding(check=Check.LARGEST_WEIGHT, passed=False, message="")
    assert replace(told, checks=[doubt]).better == "cannot tell"
    monkeypatch.setattr("ope_bench.advise", lambda *given, **options: told)
    assert invoke(["advise", str(path), "--jobs=1", *options]) == code
    assert capsys.readouterr().out.startswith("Can this log answer? ")


def test_both_questions_are_answered_in_the_first_line(log):
    found = advise(log)
    first = found.opening()
    answer = {"trust": "Yes", "caution": "With repairs", "run-an-experiment": "No"}[found.verdict]
    assert first.startswith(f"Can this log answer? {answer}. Is target better? ")
    document = found.as_json()
    assert document["better"] == found.better
    lift = {key: getattr(found.recommended, f"lift{end}")
            for key, end in (("value", ""), ("low", "_low"), ("high", "_high"))}  # fmt: skip
    assert document["lift"] == lift
    sure = replace(found, average_error=abs(found.logging_average) / 10)
    assert "%" in sure.opening()
    # A percentage of about nothing says nothing.
    assert "%" not in replace(found, average_error=abs(found.logging_average)).opening()
    chosen = replace(found.recommended, lift_low=-0.3, lift_high=-0.1)
    worse = replace(found, verdict="trust", recommended=chosen)
    assert worse.better == "worse"
    assert replace(worse, verdict="run-an-experiment").better == "cannot tell"


def test_no_value_is_stated_where_the_weights_do_not_average_one(tmp_path, capsys):
    given = frame_of(discrete(600))
    given["q"] = np.full(600, 0.9)
    columns = {"context": ["x0"], "action": "a", "reward": "r", "propensity": "p", "target": "q"}
    wrong = Log.from_frame(given, **columns)
    found = advise(wrong)
    mean = float((given["q"] / given["p"]).mean())
    assert mean > 1.2
    document = json.loads(json.dumps(found.as_json()))
    chosen = document["recommended"]
    nothing = {name for name, value in chosen.items() if value is None}
    assert nothing >= {"value", "low", "high", "lift", "lift_low", "lift_high", "interval"}
    assert document["lift"] == {"value": None, "low": None, "high": None}
    assert (document["better"], document["exit_code"]) == ("cannot tell", 0)
    assert f"average {mean:.3g} instead of 1" in found.opening()
    for column in ("`q`", "`p`", "*logged* action", "swapped"):
        assert column in found.opening()
    (table,) = estimate(wrong, ["ipws"]).tables()
    styles = {one.style for one in table.rows[0][:4]}
    assert styles == {"dim"}
    assert "no value holds here" in table.notes[0]
    # Of several policies as well.
    several = advise(
        replace(wrong, targets=dict.fromkeys(("one", "two"), wrong.targets["target"]))
    )
    assert [row.value for row in several.shortlist.policies] == [None, None]
    assert several.shortlist.winner is None


def test_the_recommended_row_is_marked_unless_others_contradict_it(log):
    rule = recommendation_for(log, "target")
    result = estimate(log, [rule.center, "ipws", "dr"])
    (table,) = result.tables()
    marked = [row[0].text for row in table.rows if row[0].style == "best"]
    assert marked == [f"{rule.center} *"]
    (only,) = result.targets
    against = replace(result, targets=(replace(only, recommended=None),))
    assert not [row for row in against.tables()[0].rows if row[0].style == "best"]


def test_two_estimators_contradict_by_paired_errors_of_units():
    rng = np.random.default_rng(0)
    n = 400
    unit = np.arange(n) // 2
    noise = np.repeat(rng.normal(size=n // 2), 2)
    base = rng.normal(size=n)
    terms = {"ipws": base, "dr": base + 0.3 * noise + 0.05}
    rows = [row("ipws", value=1.0), row("dr", value=1.0 + float((terms["dr"] - base).mean()))]
    apart = (terms["dr"] - base).reshape(-1, 2).mean(axis=1)
    error = float(apart.std(ddof=1)) / math.sqrt(n // 2)
    for distance, said in ((2.9, False), (3.1, True)):
        pair = [rows[0], replace(rows[1], value=1.0 + distance * error)]
        assert bool(contradictions(pair, terms, unit)) is said
        heavy = [replace(one, max_weight_share=0.2) for one in pair]
        assert not contradictions(heavy, terms, unit)
    far = [replace(one, max_weight_share=0.2) for one in (rows[0], pair[1])]
    assert contradictions([far[0], replace(far[1], value=1.0 + 4.1 * error)], terms, unit)
    # An estimator whose standard error leaves out its bias is no witness.
    other = [replace(one, estimator="dr-os") for one in pair]
    assert not contradictions([pair[0], other[1]], terms, unit)


def test_the_command_says_which_policy_wins(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = write_small(tmp_path)
    text = path.read_text().replace(
        "{probability: q}", "{new: {probability: q}, p2: {probability: p}}"
    )
    path.write_text(text)
    assert invoke(["advise", str(path), "--jobs=1"]) == 0
    caught = capsys.readouterr()
    assert "which policy wins" in caught.out
    assert "--target" in caught.err
    assert invoke(["advise", str(path), "--jobs=1", "--report=a.html", "--format=json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {one["target"] for one in document["policies"]} == {"new", "p2"}
    assert invoke(["advise", str(path), "--simulate"]) == 2
    assert "--target new" in capsys.readouterr().err


def test_an_experiment_is_proposed_where_the_log_cannot_answer():
    few = log_of(discrete(4))
    found = advise(few)
    assert found.verdict == "run-an-experiment"
    given = found.experiment
    assert found.as_json()["experiment"].keys() == {"share", "today", "factors", "rows", "width"}
    assert any(given.sentence() == note for note in found.notes)
    assert (given.share, given.today, given.rows) == (0.2, "logging", 4)
    assert set(given.factors) == set(few.actions)
    mass = np.asarray(few.targets["target"].matrix.mean(axis=0)).reshape(-1)
    assert mass @ np.array(list(given.factors.values())) == pytest.approx(1.0)
    with pytest.raises(UsageError, match="share 0"):
        advise(few, today_share=0.0)
    assert advise(log_of(discrete(300))).experiment is None


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_the_proposed_width_is_that_of_logs_of_the_proposal(value):
    """Rewards whose mean square depends on the action alone: the formula is exact then."""
    n, rng = 20_000, np.random.default_rng(0)
    policy = rng.dirichlet(np.ones(4), n)
    spread = np.array([0.2, 1.0, 3.0, 0.5])
    action = rng.integers(4, size=n)
    frame = {"x": rng.standard_normal(n), "a": action, "p": np.full(n, 0.25)}
    frame["r"] = value + spread[action] * rng.standard_normal(n)
    uniform = TargetPolicy(table=np.full((n, 4), 0.25))
    log = Log.from_frame(
        frame, context=["x"], action="a", reward="r", propensity="p", logging=uniform,
        target=TargetPolicy(table=policy),
    )  # fmt: skip
    found = next_log(log, "target", resolve_one("dm"), value, share=0.3)
    factor = np.array([found.factors[str(one)] for one in range(4)])
    size = np.hypot(value, spread)
    assert factor / factor[0] == pytest.approx(size / size[0], rel=0.1)
    new = policy * size
    mixed = 0.7 * new / new.sum(axis=1, keepdims=True) + 0.3 * 0.25
    played = (rng.random((n, 1)) > mixed.cumsum(axis=1)).sum(axis=1).clip(0, 3)
    rows = np.arange(n)
    reward = value + spread[played] * rng.standard_normal(n)
    terms = policy[rows, played] / mixed[rows, played] * reward
    assert found.width == pytest.approx(2 * 1.96 * terms.std() / np.sqrt(n), rel=0.1)
    assert found.today == "logging"


@pytest.mark.parametrize("value", [0.0, -0.25, None])
def test_a_value_of_zero_is_told_as_zero(value: float | None) -> None:
    best: Any = SimpleNamespace(estimator="ipw", label="ipw", value=value, lift=None)
    rule: Any = None
    assert _recommended(best, [], [], rule, Stated(), None).value == (value or 0.0)
