"""`estimate`: the benchmark's numbers, paired lifts and differences, and what cannot run."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import t as student

from ope_bench import Environment, Log, Problem, TargetPolicy, Truth, View, estimate
from ope_bench.base.errors import UsageError
from ope_bench.cli.app import invoke
from ope_bench.cli.own_log import print_result
from ope_bench.contracts.random import DataSeed
from ope_bench.contracts.view import FitCache
from ope_bench.logs import estimation
from ope_bench.logs.estimation import ENVIRONMENT, INTERVALS
from ope_bench.logs.problem import problem_of
from ope_bench.plugins.spec import PluginSpec, resolve
from ope_bench.statistics.unit_errors import standard_error
from ope_bench.suites.manifest import specs_of
from ope_bench.trials.record import Trial, TrialRecord
from ope_bench.trials.trial import Workspace, build, run_trial
from support.golden_log import ACTION, CONTEXT, LOGGING, REWARD, TARGET
from support.small_logs import (
    LOG_FILE,
    discrete,
    frame_of,
    items_of,
    log_of,
    log_of_columns,
    table_of,
    write_csv,
    write_small,
)

KNOWN = ["ipw", "ipws", "sg-ipw", "beta-ipw", "dm[regressor=ridge]", "dr[regressor=ridge]"]
KNOWN += ["dr-os[regressor=ridge]", "sndr[regressor=ridge]", "tmle[regressor=ridge]", "eipw"]
SAMPLED = ["dm-star[regressor=ridge]", "edm-star[regressor=ridge]", "epws[classifier=logistic]"]


class Sampled(Environment):
    """Samples the one problem that it holds."""

    def __init__(self, given: Problem) -> None:
        self.given = given

    def sample(self, **streams: np.random.Generator) -> tuple[Problem, Truth]:
        return self.given, Truth(0.0, 0.0, 0.0)


def benchmarked(given: Problem, selectors: list[str]) -> list[TrialRecord]:
    """The records of a run on the environment from which the log is exported."""
    where = PluginSpec("environment", "sampled", ENVIRONMENT)
    specs = [spec for selector in selectors for spec in specs_of("estimator", selector)]
    workspace = Workspace()
    return [
        run_trial(
            Trial(where, spec, 0), workspace, environment=Sampled(given), estimator=build(spec)
        )
        for spec in specs
    ]


def saito() -> Problem:
    """One problem of the paper's simulation, the embedding of an action a function of it."""
    spec = resolve("environment", "saito-toy", {"n_samples": 200, "n_actions": 12})
    seed = DataSeed("export", 0, 0)
    problem, _ = build(spec).sample(
        world_rng=seed.world(), logged_rng=seed.logged(), target_rng=seed.target()
    )
    return problem


def assert_equal_bits(rows: list, records: list[TrialRecord]) -> None:
    assert len(rows) == len(records)
    for row, record in zip(rows, records, strict=True):
        assert row.status == record.status == "ok", record.error_message
        assert (row.value, row.standard_error) == (record.estimate, record.standard_error), row
        assert row.ess_fraction == record.ess_fraction
        assert row.max_weight_share == record.max_weight_share


@pytest.mark.parametrize("given", [discrete(), saito()], ids=["discrete", "saito-toy"])
def test_a_log_exported_from_an_environment_gives_the_bits_of_a_run_on_it(given):
    deterministic = given.action_embedding is not None
    selectors = [one for one in KNOWN if deterministic or one != "eipw"]
    if not deterministic:
        # Embeddings are drawn: a log file describes actions by one row each.
        given = replace(
            given,
            embedding=np.zeros((len(given.reward), 0)),
            schema=None,
            target_embedding=np.zeros((len(given.target_action), 0)),
        )
        frame = frame_of(given)
        log = Log.from_frame(
            frame,
            context=[name for name in frame if name[0] == "x"],
            action="a",
            reward="r",
            propensity="p",
            target=TargetPolicy(table=table_of(given.target_policy, given)),
        )
    else:
        log = log_of(given)
    rows, records = list(estimate(log, selectors)), benchmarked(given, selectors)
    if deterministic:
        assert_equal_bits(rows, records)
        return
    # An epsilon-greedy policy sums over actions in an order of its own.
    assert_equal_bits(rows[:4], records[:4])
    assert [row.value for row in rows] == pytest.approx([one.estimate for one in records])


def test_sampled_targets_give_the_bits_of_a_run_on_the_same_samples():
    base = discrete()
    # A log file describes items as atoms.
    schema = problem_of(log_of(base), "target", np.random.default_rng(0)).schema
    taken = base.target_policy.sample(base.context, np.random.default_rng(3))
    given = replace(
        base,
        target_context=base.context,
        target_action=taken,
        target_embedding=base.action_embedding[taken],
        shared_contexts=True,
        schema=schema,
    )
    log = log_of(base, new=TargetPolicy(sampled=taken))
    assert_equal_bits(list(estimate(log, SAMPLED)), benchmarked(given, SAMPLED))


@pytest.mark.usefixtures("workers")
def test_the_command_gives_the_numbers_of_a_run_through_files_and_workers(tmp_path, capsys):
    given = discrete()
    write_csv(tmp_path / "d.csv", frame_of(given))
    write_csv(tmp_path / "i.csv", items_of(given))
    table = table_of(given.target_policy, given)
    n, k = table.shape
    columns = {
        "row": np.repeat(np.arange(n), k),
        "action": np.tile(np.arange(k), n),
        "probability": table.reshape(-1),
    }
    write_csv(tmp_path / "t.csv", columns)
    context = ", ".join(name for name in frame_of(given) if name[0] == "x")
    (tmp_path / "log.yaml").write_text(
        LOG_FILE.replace("x0, x1", context).replace("{probability: q}", "{table: t.csv}")
        + "items: {table: i.csv, key: a}\n"
    )
    selectors = KNOWN[:-1]
    arguments = [word for one in selectors for word in ("--est", one)]
    assert invoke(["estimate", str(tmp_path / "log.yaml"), *arguments, "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    records = benchmarked(given, selectors)
    rows = document["targets"][0]["rows"]
    # Workers compute by kernels that every processor has, which round differently.
    for name, field in (("value", "estimate"), ("standard_error", "standard_error")):
        expected = [getattr(record, field) for record in records]
        found = [row[name] for row in rows]
        assert [one is None for one in found] == [one is None for one in expected]
        assert list(filter(None, found)) == pytest.approx(list(filter(None, expected)), rel=1e-12)
    assert [row["estimator"] for row in rows] == [one.trial.estimator.id for one in records]


def golden(**targets: TargetPolicy) -> Log:
    frame = {"x": CONTEXT, "a": ACTION, "r": REWARD, "p": LOGGING[CONTEXT, ACTION]}
    whole = TargetPolicy(table=TARGET[CONTEXT])
    return Log.from_frame(
        frame,
        context=["x"],
        categorical=["x"],
        action="a",
        reward="r",
        propensity="p",
        target=targets or whole,
    )


@pytest.fixture
def few_are_enough(monkeypatch):
    """Intervals by standard errors of logs whose few rewards would withhold them."""
    monkeypatch.setattr(estimation, "few_rewards", lambda *_: "")


@pytest.mark.usefixtures("few_are_enough")
def test_the_lift_of_the_golden_log_is_the_printed_one():
    ipw = estimate(golden(), "ipw")["ips"]
    assert ipw.lift == pytest.approx(0.666667, abs=1e-6)
    terms = TARGET[CONTEXT, ACTION] / LOGGING[CONTEXT, ACTION] * REWARD - REWARD
    error = terms.std(ddof=1) / np.sqrt(len(terms))
    quantile = student.ppf(0.975, len(terms) - 1)
    assert ipw.lift_low == pytest.approx(ipw.lift - quantile * error, abs=1e-6)
    assert ipw.lift_high == pytest.approx(ipw.lift + quantile * error, abs=1e-6)


@pytest.mark.usefixtures("few_are_enough")
def test_the_lift_around_a_baseline_is_the_printed_one():
    row = estimate(golden(), "beta-ipw")["beta-ipw"]
    assert row.value == pytest.approx(0.933021, abs=1e-6)
    assert row.lift == pytest.approx(0.301921, abs=1e-6)
    weight = TARGET[CONTEXT, ACTION] / LOGGING[CONTEXT, ACTION]
    square = (weight - 1) ** 2
    terms = (weight - 1) * (REWARD - (square * REWARD).sum() / square.sum())
    reach = student.ppf(0.975, 5) * terms.std(ddof=1) / 6**0.5
    assert (row.lift_low, row.lift_high) == pytest.approx((row.lift - reach, row.lift + reach))


def test_differences_around_a_baseline_have_one_of_their_own():
    """The policies are compared by their weights, and a policy with itself differs by nothing."""
    logging = TargetPolicy(table=LOGGING[CONTEXT])
    whole = TargetPolicy(table=TARGET[CONTEXT])
    result = estimate(golden(old=logging, new=whole, same=whole), "beta-ipw")
    found = {(one.target, one.versus): one for one in result.differences}
    assert found["new", "old"].difference == pytest.approx(0.301921, abs=1e-6)
    assert (found["same", "new"].difference, found["same", "new"].low) == (0.0, 0.0)
    half = TargetPolicy(table=0.5 * (LOGGING + TARGET)[CONTEXT])
    (one,) = estimate(golden(half=half, new=whole), "beta-ipw").differences
    weight = TARGET[CONTEXT, ACTION] / LOGGING[CONTEXT, ACTION]
    apart = weight - 0.5 * (1 + weight)
    baseline = (apart**2 * REWARD).sum() / (apart**2).sum()
    assert one.difference == pytest.approx((apart * (REWARD - baseline)).mean())
    assert one.difference == pytest.approx(0.301921 / 2, abs=1e-6)


WITH_TERMS = ["ipw", "ipws", "sg-ipw", "beta-ipw", "eipw", "eipws"]
WITH_TERMS += [f"{name}[regressor=ridge]" for name in ("dr", "dr-os", "sndr", "tmle", "switch-dr")]


@pytest.mark.parametrize("selector", WITH_TERMS)
def test_terms_have_the_standard_error_of_the_estimate(selector):
    given = discrete()
    (spec,) = specs_of("estimator", selector)
    estimator = build(spec)
    view = View(given, estimator.access, seed=DataSeed("x", 0, 0), fit_cache=FitCache())
    estimator.fit(view, rng=np.random.default_rng(0), device="cpu")
    estimate = estimator.estimate(view)
    error = standard_error(estimate.terms, view.unit)
    assert error == pytest.approx(estimate.standard_error, rel=1e-9)


def test_the_same_policy_has_no_lift_for_sure():
    given = discrete()
    row = estimate(log_of(replace(given, target_policy=given.logging_policy)), "ipw")["ipw"]
    assert (row.lift, row.lift_low, row.lift_high) == pytest.approx((0.0, 0.0, 0.0), abs=1e-9)
    assert row.high - row.low > 0.1


def test_rounding_alone_is_no_lift_and_no_difference():
    """Weights that are all equal give the logged average, whose last bits depend on the sums."""
    rng = np.random.default_rng(0)
    frame = {
        "x": rng.normal(size=50),
        "a": rng.integers(3, size=50),
        "r": rng.integers(2, size=50).astype(float),
        **{name: np.full(50, share) for name, share in {"p": 0.3333, "q": 0.5, "s": 0.45}.items()},
    }
    targets = {name: TargetPolicy(logged_probability=name) for name in "qs"}
    log = log_of_columns(frame, target=targets)
    result = estimate(log, ["ipws", "sg-ipw[normalize=true]", "ipw"])
    for target in result.targets:
        *equal, ipw = target.rows
        assert [(row.lift, row.lift_low, row.lift_high) for row in equal] == [(0.0, 0.0, 0.0)] * 2
        assert ipw.lift > 0.1
    *same, last = result.differences
    assert [(one.difference, one.low, one.high) for one in same] == [(0.0, 0.0, 0.0)] * 2
    assert last.difference < -0.01


def test_differences_between_policies_are_paired_by_row():
    given = discrete()
    table = table_of(given.target_policy, given)
    logging = table_of(given.logging_policy, given)
    mixed = 0.5 * table + 0.5 * logging
    result = estimate(
        log_of(given, new=TargetPolicy(table=table), half=TargetPolicy(table=mixed)),
        ["ipw", "ipws", "dm[regressor=ridge]"],
    )
    by_label = {one.label: one for one in result.differences}
    ipw = by_label["ipw"]
    rows = np.arange(len(given.reward))
    # New minus half: the one further from what was logged comes first.
    terms = (table - mixed)[rows, given.action] / given.propensity * given.reward
    error = terms.std(ddof=1) / np.sqrt(len(terms))
    assert (ipw.target, ipw.versus) == ("new", "half")
    assert ipw.difference == pytest.approx(terms.mean())
    quantile = student.ppf(0.975, len(terms) - 1)
    assert ipw.high - ipw.low == pytest.approx(2 * quantile * error, rel=1e-6)
    assert by_label["dm"].low is None
    values = [row.value for target in result.targets for row in target.rows if row.label == "ipws"]
    assert by_label["ipws"].difference == values[0] - values[1]
    assert "differences" in result.as_json()


def test_rows_of_a_unit_are_clustered():
    given = discrete()
    frame = frame_of(given)
    twice = {name: np.repeat(values, 2) for name, values in frame.items()}
    twice["session"] = np.repeat(np.arange(len(given.reward)), 2)
    names = {
        "context": [name for name in frame if name[0] == "x"],
        "action": "a",
        "reward": "r",
        "propensity": "p",
        "target": TargetPolicy(logged_probability="q"),
    }
    once = estimate(Log.from_frame(frame, **names), "ipw")["ipw"]
    clustered = Log.from_frame(twice, unit="session", **names)
    row = estimate(clustered, "ipw")["ipw"]
    assert clustered.facts()["units"] == len(given.reward)
    assert row.standard_error == pytest.approx(once.standard_error)
    assert row.lift_high == pytest.approx(once.lift_high)
    naive = estimate(Log.from_frame(twice, **names), "ipw")["ipw"]
    assert naive.standard_error < 0.8 * row.standard_error


FORMS: Mapping[str, tuple[str, ...]] = {
    "action": ("dm-star", "edm-star"),
    "probability": ("ipw", "ipws", "sg-ipw"),
    "table": ("ipw", "ipws", "sg-ipw", "dm", "dr", "dm-star", "edm-star"),
}


@pytest.mark.parametrize("form", FORMS)
def test_what_a_form_cannot_give_is_unavailable_with_the_line_that_would(form):
    given = discrete()
    table = table_of(given.target_policy, given)
    policies = {
        "action": TargetPolicy(sampled=given.action),
        "probability": TargetPolicy(logged_probability="q"),
        "table": TargetPolicy(table=table),
    }
    names = ["ipw", "ipws", "sg-ipw", "dm", "dr", "dm-star", "edm-star"]
    selectors = [f"{one}[regressor=ridge]" if "d" in one else one for one in names]
    rows = {row.estimator: row for row in estimate(log_of(given, new=policies[form]), selectors)}
    unable = {name: row for name, row in rows.items() if row.status != "ok"}
    assert set(rows) - set(unable) == set(FORMS[form])
    for row in unable.values():
        assert row.status == "unavailable"
        assert "give `target:" in row.message


def test_the_default_estimators_leave_out_what_cannot_run_and_say_why(tmp_path):
    result = estimate(Log.read(write_small(tmp_path)), level=0.9)
    (target,) = result.targets
    assert {row.estimator for row in target.rows} >= {"ipw", "ipws"}
    assert all(row.status == "ok" and row.level == 0.9 for row in target.rows)
    assert {"dm", "edr"} <= {label for label, _ in target.left_out}
    assert result.exit_code == 0


def test_no_value_at_all_is_exit_code_3(tmp_path, capsys):
    assert invoke(["estimate", str(write_small(tmp_path)), "--est", "dm-star"]) == 3
    assert "there is no target sample" in " ".join(capsys.readouterr().out.split())


@pytest.mark.usefixtures("few_are_enough")
@pytest.mark.parametrize("interval", INTERVALS)
def test_an_interval_that_is_not_offered_is_said_not_invented(interval, tmp_path):
    result = estimate(Log.read(write_small(tmp_path)), "beta-ipw", interval=interval)
    row = result["beta-ipw"]
    if interval == "asymptotic":
        assert row.interval == interval
        assert row.low < row.value < row.high
    else:
        assert (row.low, row.high, row.lift_low, row.interval) == (None,) * 4
        assert f"offers no {interval} interval" in row.message
        assert interval in result.notes[0]


def test_wrong_levels_and_intervals_are_refused(tmp_path):
    log = Log.read(write_small(tmp_path))
    with pytest.raises(UsageError, match="level 1 is not between"):
        estimate(log, "ipw", level=1.0)
    with pytest.raises(UsageError, match="at least one estimator"):
        estimate(log, [])


KEYS = {
    "estimator",
    "label",
    "params",
    "status",
    "value",
    "low",
    "high",
    "level",
    "interval",
    "standard_error",
    "lift",
    "lift_low",
    "lift_high",
    "ess_fraction",
    "max_weight_share",
    "access",
    "message",
    "seconds",
    "lift_relative",
    "disagreement_low",
    "disagreement_high",
    "sensitivity",
}


@pytest.mark.parametrize("form", ["text", "csv", "markdown"])
def test_estimates_are_printed_without_control_characters(form, capsys):
    given = discrete()
    evil = TargetPolicy(table=table_of(given.target_policy, given))
    result = estimate(log_of(given, **{"new \x1b]0;owned\x07\u202e": evil}), ["ipw"])
    capsys.readouterr()
    print_result(result, form)
    told = capsys.readouterr().out
    assert "owned" in told
    assert not set(told) & set("\x1b\x07\u202e")


def test_json_csv_markdown_and_text_say_the_same(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    path = str(write_small(tmp_path))

    assert invoke(["estimate", path, "--est", "ipw", "--est", "ipws", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    result = estimate(Log.read(path), ["ipw", "ipws"])

    def said(form: str) -> str:
        print_result(result, form)
        return capsys.readouterr().out

    assert set(document) == {
        "schema", "log", "logging_average", "targets", "notes", "exit_code",
    }  # fmt: skip
    assert set(document["log"]) == {"rows", "units", "actions", "propensity", "target_form"}
    (target,) = document["targets"]
    assert set(target) == {"name", "unsupported_mass", "rows"}
    assert all(set(row) == KEYS for row in target["rows"])
    lines = said("csv").splitlines()
    assert lines[0].split(",")[:2] == ["target", "estimator"]
    assert len(lines) == 3
    assert repr(target["rows"][0]["value"]) in lines[1]
    assert "| estimator | value |" in said("markdown")
    text = said("text")
    assert max(map(len, text.splitlines())) <= 80
    for one in ("ipw", "ipws", "logged average 0.5", "not testable: "):
        assert one in text
    assert str(tmp_path) not in text


def test_a_result_shows_in_a_notebook(tmp_path, monkeypatch):
    result = estimate(Log.read(write_small(tmp_path)), ["ipw", "ipws"])
    shown = result._repr_html_()
    assert shown.count("<tr>") == 3
    assert "ipws" in shown
    assert "ipws" in repr(result)
    assert result["ipw"] is next(iter(result))
    with pytest.raises(KeyError):
        result["dm"]
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=list))
    rows = result.to_pandas()
    assert [row["label"] for row in rows] == ["ipw", "ipws"]
    assert set(rows[0]) == {"target", "unsupported_mass", *KEYS}


def test_nothing_of_the_log_is_left_behind(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "t"))
    (tmp_path / "t").mkdir()
    estimate(Log.read(write_small(tmp_path)), ["ipw"])
    assert not list((tmp_path / "t").iterdir())
