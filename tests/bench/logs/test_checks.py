"""`log check`: what it finds in logs with a known fault, and what it does not find in others."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from ope_bench import Log, TargetPolicy, advise
from ope_bench.cli.app import invoke
from ope_bench.logs.advice_verdict import first_action
from ope_bench.logs.checks import _drift, check_log, skewed_z
from ope_bench.logs.example import KEPT, _Shop, write_example
from ope_bench.logs.finding import Check, Finding
from ope_bench.logs.row_faults import units_of
from support.paths import ROOT

N, K = 2000, 6


def frame():
    rng = np.random.default_rng(5)
    logging = rng.dirichlet(np.full(K, 3.0), N)
    action = (np.cumsum(logging, axis=1) < rng.random(N)[:, None]).sum(axis=1)
    return {
        "x": rng.normal(size=N),
        "c": rng.integers(3, size=N),
        "a": action,
        "r": rng.random(N),
        "p": logging[np.arange(N), action],
        "t": np.arange(N),
    }


def failed(given, **names) -> set[str]:
    uniform = TargetPolicy(table=np.full((N, K), 1 / K))
    defaults = {"context": ["x", "c"], "action": "a", "reward": "r", "propensity": "p"}
    log = Log.from_frame(given, **(defaults | {"target": uniform, "time": "t"} | names))
    return {one.name for one in check_log(log).findings if one.passed is False}


def test_a_clean_log_passes_every_check():
    assert failed(frame()) == set()


def test_propensities_that_are_too_small_are_found():
    given = frame()
    broken = given["a"] == 2
    given["p"] = np.where(broken, given["p"] / 2, given["p"])
    assert failed(given) == {
        "implausible propensities", "target: mean weight", "target: mean weight by part",
        "drift of actions",
    }  # fmt: skip


def test_copies_are_found_without_times_and_rows_of_few_contexts_are_not_called_copies():
    given = frame()
    assert failed(given, time=None) == set()
    few = given | {"x": given["x"].round(0), "r": (given["r"] < 0.5) * 1.0}
    assert failed(few, time=None) == set()
    rows = np.sort(np.append(np.arange(N - 40), np.arange(40)))
    for clean in (given, few):
        copies = {name: values[rows] for name, values in clean.items()}
        if clean is given:
            assert failed(copies, time=None) == {"repeated rows"}
        assert "repeated rows" in failed(copies)


def test_a_mean_weight_below_one_is_not_blamed_where_unseen_rows_may_carry_the_rest():
    given = frame()
    target = TargetPolicy(logged_probability=0.9 * given["p"])
    given["p"] = given["p"] * np.random.default_rng(0).uniform(0.9, 1.1, N)
    assert failed(given, target=target) == {
        f"target: {one}" for one in ("mean weight", "mean weight by part", "unsupported mass")
    }
    # An action with this propensity may have a weight beyond that of all rows.
    given["p"][0] = 0.1 / N
    given["a"][0] = K
    probability = np.append(0.0, target.probability[1:])
    target = TargetPolicy(logged_probability=probability)
    # That this part is not supported stays true.
    assert failed(given, target=target) == {"target: unsupported mass"}


def test_rewards_that_are_missing_at_the_end_are_found():
    given = frame()
    given["r"] = np.where(given["t"] >= 0.93 * N, 0.0, given["r"])
    assert "drift of the newest rewards" in failed(given)
    more = frame()
    more["r"] = np.where(more["t"] >= 0.93 * N, 2.0, more["r"])
    assert "drift of the newest rewards" not in failed(more)


def test_units_whose_rewards_are_alike_are_worth_fewer_rows():
    given = frame() | {"session": np.repeat(np.arange(N // 5), 5)}
    assert failed(given, unit="session") == set()
    given["r"] = given["r"] + np.random.default_rng(0).random(N // 5)[given["session"]]
    # Errors are by unit: rows of one unit cost rows, and no trust.
    assert failed(given, unit="session") == set()
    log = Log.from_frame(
        given, context=["x"], action="a", reward="r", unit="session", time="t",
        target=TargetPolicy(sampled="a"),
    )  # fmt: skip
    found = {one.name: one for one in check_log(log).findings}["rows of one unit"]
    # Both parts of the reward have the same variance.
    assert found.value == pytest.approx(0.5, abs=0.06)
    assert int(found.message.split(" are worth ")[1].split(";")[0]) == pytest.approx(
        N / 3, rel=0.1
    )


def test_drift_of_the_reward_and_of_the_context_is_found():
    given = frame()
    given["r"] = given["r"] + 0.2 * (given["t"] > N / 2)
    given["x"] = given["x"] + 0.5 * (given["t"] > N / 2)
    assert failed(given) == {"drift of reward", "drift of context x"}


def test_a_columns_name_never_decides_whom_a_finding_is_about():
    """A colon in a context's or a policy's name: `advise` judges the same findings."""
    given = frame()
    given["target: age"] = given["x"] + 0.5 * (given["t"] > N / 2)
    log = Log.from_frame(
        given, context=["target: age"], action="a", reward="r", propensity="p", time="t",
        target={"a: b": TargetPolicy(table=np.full((N, K), 1 / K))},
    )  # fmt: skip
    (drift,) = (one for one in check_log(log).findings if one.passed is False)
    assert (drift.check, drift.policy, drift.subject) == (
        Check.CONTEXT_DRIFT, None, "target: age",
    )  # fmt: skip
    advice = advise(log, candidates=["ipws"])
    assert drift in advice.checks
    assert advice.verdict == "caution"
    about = {one.check for one in check_log(log).findings if one.policy == "a: b"}
    assert about >= {Check.MEAN_WEIGHT, Check.EFFECTIVE_SIZE}
    (row,) = [one for one in advice.as_json()["findings"] if one["check"] == "drift of context"]
    assert row["subject"] == "target: age"
    assert not row["decisive"]
    assert row["first_action"] == "Look at: drift of context target: age."


def sessions(rng, drift: float = 0.0) -> dict[str, np.ndarray]:
    """60 units of 20 rows, one after the other; rows of a unit are alike."""
    units, rows = 60, 20
    mean = rng.normal(size=(2, units)) + drift * np.linspace(-1, 1, units)
    reward, x = np.repeat(mean, rows, axis=1) + rng.normal(scale=0.5, size=(2, units * rows))
    preferred = np.repeat(rng.integers(K, size=units), rows)
    other = rng.integers(K, size=units * rows)
    return {
        "x": x,
        "a": np.where(rng.random(units * rows) < 0.8, preferred, other),
        "r": reward,
        "session": np.repeat(np.arange(units), rows),
        "t": np.arange(units * rows),
    }


@pytest.mark.parametrize(("drift", "least", "most"), [(0.0, 0.0, 0.15), (1.5, 0.95, 1.0)])
def test_drift_is_tested_by_unit(drift, least, most):
    """Two tests of 5 %, one of means and one of shares, on 60 logs."""
    rng = np.random.default_rng(0)
    columns = {
        "context": ["x"],
        "propensity": None,
        "unit": "session",
        "target": TargetPolicy(sampled="a"),
    }
    names = {"context": ["x"], "action": "a", "reward": "r", "time": "t"}
    flagged = []
    for _ in range(60):
        log = Log.from_frame(sessions(rng, drift), **(names | columns))
        flagged.append(any(one.passed is False for one in _drift(log)))
    assert least <= np.mean(flagged) <= most


def test_a_unit_of_several_times_has_their_median():
    """Units 0 to 3 are early and 4 to 7 late, though unit 0 has the last row of all."""
    session = np.repeat(np.arange(8), 3)
    time = np.arange(24)
    time[2] = 99
    given = {"x": np.zeros(24), "a": session % 2, "r": time / 99, "session": session, "t": time}
    columns = {"context": ["x"], "action": "a", "reward": "r", "unit": "session", "time": "t"}
    log = Log.from_frame(given, **columns, target=TargetPolicy(sampled="a"))
    unit, median = units_of(log)
    assert unit.tolist() == session.tolist()
    ranks = np.asarray(log.time).reshape(8, 3)
    assert median.tolist() == np.median(ranks, axis=1).tolist()


def test_two_units_are_too_few_to_look_for_drift():
    given = frame() | {"session": np.repeat([0, 1], N // 2)}
    log = Log.from_frame(
        given, context=["x"], action="a", reward="r", unit="session", time="t",
        target=TargetPolicy(sampled="a"),
    )  # fmt: skip
    messages = {one.name: one.message for one in check_log(log).findings}
    assert messages["drift"] == "not checked; one half of the time has fewer than two units"


def test_the_effective_sample_size_counts_units():
    """All rows of 20 units weigh the same: 2,000 rows are worth 20 units."""
    given = frame() | {"session": np.arange(N) % 20, "p": np.full(N, 1 / K)}
    target = TargetPolicy(logged_probability=np.full(N, 1 / K))
    columns = {"context": ["x"], "action": "a", "reward": "r", "propensity": "p"}
    for unit, size, passed in ((None, N, True), ("session", 20, False)):
        log = Log.from_frame(given, **columns, target=target, unit=unit)
        found = {one.name: one for one in check_log(log).findings}
        ess = found["target: effective sample size"]
        assert ess.value == pytest.approx(size)
        assert ess.passed is passed
    assert ess.message.startswith("20 of 20 units")


def test_a_column_that_determines_the_reward_is_a_leak():
    given = frame()
    given["c"] = (given["r"] > 0.5).astype(int)
    given["r"] = given["c"].astype(float)
    assert "leaks" in failed(given)


def test_a_leak_is_named_before_the_weights_that_it_turns():
    given = frame()
    given["c"] = (given["r"] > 0.5).astype(int)
    given["r"] = given["c"].astype(float)
    found = check_log(
        Log.from_frame(given, context=["x", "c"], action="a", reward="r", target={"action": "a"})
    ).findings
    leak = next(one for one in found if one.check is Check.LEAK)
    parts = Finding(check=Check.WEIGHT_PARTS, passed=False, message="")
    assert first_action([parts, leak]) == (
        "Leave out the column 'c' that was known only after the reward."
    )


def test_rewards_far_from_zero_are_no_leak():
    """Their squares have no digits left for what a column explains."""
    given = frame()
    far = given | {"r": given["r"] + 1e9}
    assert failed(far) == failed(given) == set()


def test_a_rules_skewed_weights_far_below_one_withhold_the_value():
    given = frame()
    given["p"] = np.ones(N)
    given["q"] = np.random.default_rng(2).beta(0.2, 0.9, N)
    log = Log.from_frame(
        given, context=["x"], action="a", reward="r", propensity="p", target={"probability": "q"}
    )
    (mean,) = (one for one in check_log(log).findings if one.check is Check.MEAN_WEIGHT)
    assert mean.value < 0.3
    assert mean.withholds
    assert "were never logged in such contexts: the logger is a rule" in mean.first_action


def test_weights_of_a_whole_policy_blame_the_propensities_alone():
    given = frame()
    given["p"] = given["p"] / 3
    uniform = {"table": np.full((N, K), 1 / K)}
    log = Log.from_frame(
        given, context=["x"], action="a", reward="r", propensity="p", target=uniform
    )
    (mean,) = (one for one in check_log(log).findings if one.check is Check.MEAN_WEIGHT)
    assert mean.withholds
    asked = (
        f"average {mean.value:.3g} instead of 1: is `p` the probability of the *logged* action?"
    )
    assert mean.first_action.removeprefix("The weights ") == asked


def test_repeated_rows_are_found():
    given = frame()
    repeated = {name: np.concatenate([values[:-9], values[:9]]) for name, values in given.items()}
    assert "repeated rows" in failed(repeated)


def test_unsupported_mass_and_small_samples_are_found():
    given = frame()
    given["a"] = np.where(given["a"] == 5, 4, given["a"])
    table = np.zeros((N, K))
    table[:, 5], table[:, 0] = 0.2, 0.8
    codes = {"row": np.repeat(np.arange(N), K), "action": np.tile(np.arange(K), N)}
    whole = TargetPolicy(table=codes | {"probability": table.reshape(-1)})
    assert "target: unsupported mass" in failed(given, target=whole)
    few = TargetPolicy(logged_probability=np.where(np.arange(N) < 20, 1.0, 0.0))
    assert "target: effective sample size" in failed(given, target=few)


def test_a_known_logging_policy_tells_the_unsupported_mass_of_actions_as_of_a_table():
    """The target's action was logged in other rows, and never has a probability in its own."""
    given = frame()
    new = (given["a"] + 1) % K
    logging = np.full((N, K), 1 / (K - 1))
    logging[np.arange(N), new] = 0.0
    # In the first 500 rows the target takes an action that the logging policy may take.
    new[:500] = given["a"][:500]
    whole = np.zeros((N, K))
    whole[np.arange(N), new] = 1.0
    targets = {"sampled": TargetPolicy(sampled=new), "table": TargetPolicy(table=whole)}
    columns = {"context": ["x"], "action": "a", "reward": "r", "propensity": "p"}
    log = Log.from_frame(given, **columns, target=targets, logging=TargetPolicy(table=logging))
    masses = [one.unsupported_mass(log.action, log.logging) for one in log.targets.values()]
    assert masses == pytest.approx([0.75, 0.75])


def test_propensities_that_are_not_those_of_the_logging_policy_are_found():
    given = frame()
    logging = TargetPolicy(table=np.full((N, K), 1 / K))
    assert "propensity against `logging`" in failed(given, logging=logging)


@pytest.mark.parametrize(
    ("p", "q", "wrong"),
    [
        (0.5, 1.0, {"implausible propensities", "target: mean weight"}),
        (0.3, 0.9, {"implausible propensities", "target: mean weight"}),
        (1.0, 0.5, {"target: mean weight"}),
        (1.0, 0.97, {"target: mean weight"}),
        (1.0, 0.99, set()),
        (1.0, 1.0, set()),
        (1 - 1e-12, 1.0, set()),
    ],
)
def test_equal_weights_are_right_only_if_they_are_one(p, q, wrong):
    """Every row has action 0, with the same probabilities: there is no standard error."""
    given = frame() | {"a": np.zeros(N, dtype=int), "b": np.arange(N) % 2, "p": np.full(N, p)}
    targets = {
        "target": TargetPolicy(logged_probability=np.full(N, q)),
        "sampled": TargetPolicy(sampled="b"),
    }
    of_propensities = {"implausible propensities", "target: mean weight"}
    assert failed(given, target=targets) & of_propensities == wrong


def test_the_mean_weight_of_one_unit_is_not_tested():
    given = frame() | {"session": np.zeros(N)}
    target = TargetPolicy(logged_probability=given["p"] / 2)
    log = Log.from_frame(
        given, context=["x"], action="a", reward="r", propensity="p", unit="session", target=target
    )
    found = {one.name: one for one in check_log(log).findings}
    assert found["target: mean weight"].passed is None
    assert found["implausible propensities"].passed is True


def test_the_correction_for_skewness_does_not_call_rare_actions_wrong():
    """Means of 1{a}/p whose expectation is 1: the plain z of skewed terms is mostly too low."""
    rng = np.random.default_rng(0)
    corrected, plain = [], []
    for _ in range(300):
        p = rng.beta(0.4, 4.0, 400) * 0.9 + 0.005
        terms = (rng.random(400) < p) / p - 1.0
        corrected.append(skewed_z(terms, np.arange(400)))
        plain.append(terms.mean() / terms.std(ddof=1) * 20)
    assert np.mean(np.abs(plain) > 3) > 2 * np.mean(np.abs(corrected) > 3)
    assert np.mean(np.abs(corrected) > 3) < 0.02


def test_the_example_is_what_it_says_it_is(tmp_path, capsys):
    assert invoke(["log", "example", str(tmp_path / "shop")]) == 0
    assert float((tmp_path / "shop" / "truth.txt").read_text()) == pytest.approx(
        _Shop().value(), abs=5e-4
    )
    path = tmp_path / "shop" / "shop.yaml"
    assert "ope-bench estimate" in capsys.readouterr().err
    assert invoke(["log", "check", str(path), "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["log"]["rows"] == 5000
    assert document["log"]["actions"] == 200
    checks = {one["name"]: one for one in document["checks"]}
    assert checks["target: unsupported mass"]["passed"]
    assert not checks["drift of reward"]["passed"]
    broken = {f"item-{one + 1:03d}" for one in _Shop().broken}
    said = checks["implausible propensities"]["message"]
    named = {word.split(" ")[0] for word in said.split(": ")[1].split(", ")}
    assert named <= broken
    assert len(named) >= 2
    lacks = {one["estimator"]: one["lacks"] for one in document["estimators"]}
    assert lacks["ipw"] == ""
    assert "logging: {table: FILE}" in lacks["eipws"]


def test_the_recommended_interval_of_readme_holds_the_new_policys_value():
    """The value in the log's contexts and times, which the shop knows."""
    shop = _Shop()
    n, n_items = shop.logit.shape
    best = np.argsort(-shop.wanted, axis=1)[:, :KEPT]
    policy = np.zeros((n, n_items))
    share = np.take_along_axis(shop.wanted, best, axis=1)
    np.put_along_axis(policy, best, 0.96 * share / share.sum(axis=1, keepdims=True), axis=1)
    policy[:, -1] += 0.04
    rate = 1 / (1 + np.exp(-(shop.logit - 0.6 * np.arange(n)[:, None] / n)))
    value = (policy * rate).sum(axis=1).mean()
    assert value == pytest.approx(0.430, abs=5e-4)
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    shown = re.search(
        r"([\d.]+) per decision \(estimator: \S+\), between ([\d.]+) and ([\d.]+);"
        r".*The invented truth, in `\S+`, is (\d\.\d+)\.",
        text,
    )
    assert float(shown[4]) == pytest.approx(value, abs=5e-4)
    center, low, high = map(float, shown.groups()[:3])
    assert low < value < high
    assert low < center < high


def test_the_example_overwrites_nothing(tmp_path, capsys):
    (tmp_path / "items.csv").write_text("mine")
    assert invoke(["log", "example", str(tmp_path)]) == 2
    assert "already there" in capsys.readouterr().err
    assert (tmp_path / "items.csv").read_text() == "mine"


def test_a_check_is_shown_in_80_columns(tmp_path):
    write_example(tmp_path)
    shown = repr(Log.read(tmp_path / "shop.yaml").check())
    assert max(map(len, shown.splitlines())) <= 80
    for words in ("LOOK", "5,000 rows", "can run", "116 missing"):
        assert words in shown
