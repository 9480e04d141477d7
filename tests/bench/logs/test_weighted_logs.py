"""Rows of an own log that stand for several: a row of weight 2 is that row twice in its unit."""

from __future__ import annotations

import math
from dataclasses import asdict

import numpy as np
import pytest

from ope_bench import Log, UsageError, advise, estimate, shortlist
from ope_bench.logs.problem import effective_size

N = 400
RNG = np.random.default_rng(11)
WEIGHT = RNG.integers(1, 4, N)
FRAME = {
    "x": RNG.normal(size=N),
    "day": np.repeat(RNG.integers(0, 50, N // 2), 2),
    "item": RNG.choice(["u", "v", "w"], N, p=[0.5, 0.3, 0.2]),
    "unit": np.arange(N) // 2,
}
FRAME["click"] = (RNG.random(N) < np.where(FRAME["item"] == "u", 0.2, 0.6)).astype(float)
FRAME["p"] = np.select([FRAME["item"] == "u", FRAME["item"] == "v"], [0.5, 0.3], 0.2)
NAMES = {"context": ["x"], "action": "item", "reward": "click", "propensity": "p", "unit": "unit"}
TABLES = {name: RNG.dirichlet([1, 1, 1, 0.3], N) for name in ("new", "bold")}


def log(rows, **changes) -> Log:
    frame = {name: values[rows] for name, values in FRAME.items()}
    if "weight" in changes:
        frame[changes["weight"]] = WEIGHT[rows]
    targets = {name: {"table": table[rows]} for name, table in TABLES.items()}
    actions = ["u", "v", "w", "never"]
    return Log.from_frame(frame, **NAMES, target=targets, actions=actions, time="day", **changes)


def pair() -> tuple[Log, Log]:
    """The log with weights, and the log in which each row stands as often as its weight says."""
    return log(np.arange(N), weight="count"), log(np.repeat(np.arange(N), WEIGHT))


FIELDS = [
    "value",
    "standard_error",
    "low",
    "high",
    "lift",
    "lift_low",
    "lift_high",
    "lift_relative",
]
FIELDS += ["disagreement_low", "disagreement_high"]


def same(one: dict, other: dict, names, of: str) -> None:
    for name in names:
        first, second = one[name], other[name]
        assert (first is None) == (second is None), (of, name)
        if first is not None:
            assert first == pytest.approx(second, rel=1e-9, abs=1e-12), (of, name)


def test_estimates_and_differences_are_those_of_repeated_rows():
    kept = [
        "ipw",
        "ipws",
        "beta-ipw",
        "dm",
        "dr",
        "sndr",
        "dr-os[regressor=ridge,action_features=separate]",
    ]
    weighted, repeated = (estimate(one, kept, interval="asymptotic") for one in pair())
    assert weighted.logging_average == pytest.approx(repeated.logging_average, rel=1e-12)
    assert len(list(weighted)) == 14
    for one, other in zip(weighted, repeated, strict=True):
        assert one.status == "ok", one.message
        same(asdict(one), asdict(other), FIELDS, one.label)
    masses = [[one.unsupported_mass for one in made.targets] for made in (weighted, repeated)]
    assert masses[0] == pytest.approx(masses[1])
    assert len(weighted.differences) == 7
    for ours, theirs in zip(weighted.differences, repeated.differences, strict=True):
        same(asdict(ours), asdict(theirs), ("difference", "low", "high"), ours.label)
        assert ours.label in ("dm", "dr-os") or ours.low is not None


def test_checks_are_those_of_repeated_rows():
    weighted, repeated = pair()
    checks = [{one.name: one for one in made.check().findings} for made in (weighted, repeated)]
    # Some checks need a least number of rows, which are more where they are repeated.
    by_rows = {name for name in checks[1] if name.endswith(("by part", "leaks"))}
    assert {*checks[0]} - by_rows == {*checks[1]} - by_rows
    for name, one in checks[0].items():
        if name not in {"repeated rows", *by_rows}:
            assert one.passed == checks[1][name].passed
            assert one.value == pytest.approx(checks[1][name].value, rel=1e-9), name
    assert "drift of reward" in checks[0]
    for name in TABLES:
        assert effective_size(weighted, name) == pytest.approx(effective_size(repeated, name))
    assert f"count: {N} rows stand for {WEIGHT.sum()}" in weighted.notes
    ignored = log(np.arange(N)).check().findings
    assert {one.name: one.value for one in ignored} != {n: c.value for n, c in checks[0].items()}


def test_actions_of_a_policy_count_by_weight():
    drawn = np.where(np.arange(N) % 4 == 0, "never", "u")
    frame = FRAME | {"count": WEIGHT, "drawn": drawn}
    # With propensities the weights say what actions that chance left out would carry.
    names = {key: value for key, value in NAMES.items() if key != "propensity"}
    made = Log.from_frame(frame, **names, weight="count", target={"action": "drawn"})
    (mass,) = [one.value for one in made.check().findings if one.name.endswith("supported mass")]
    assert mass == pytest.approx(WEIGHT[::4].sum() / WEIGHT.sum())


def test_a_constant_weight_changes_nothing():
    frame = FRAME | {"count": np.full(N, 3.0)}
    plain, tripled = (
        Log.from_frame(
            frame, **NAMES, target=np.full((N, 3), 1 / 3), actions=["u", "v", "w"], **changes
        )
        for changes in ({}, {"weight": "count"})
    )
    for one, other in zip(
        estimate(plain, ["ipw", "ipws"]), estimate(tripled, ["ipw", "ipws"]), strict=True
    ):
        same(asdict(one), asdict(other), FIELDS, one.label)


def test_kept_rows_of_a_thinned_log_give_its_value():
    """Clicks are all kept, others with a tenth: weights of 1 and 10 undo that."""
    rng = np.random.default_rng(5)
    n = 40_000
    action = rng.integers(0, 2, n)
    click = (rng.random(n) < np.where(action == 0, 0.05, 0.2)).astype(float)
    kept = (click == 1) | (rng.random(n) < 0.1)
    frame = {"x": rng.normal(size=n), "a": action, "r": click, "p": np.full(n, 0.5)}
    frame |= {"w": np.where(click == 1, 1.0, 10.0), "q": np.where(action == 0, 0.1, 0.9)}
    thinned = {name: values[kept] for name, values in frame.items()}
    names = {"context": ["x"], "action": "a", "reward": "r", "propensity": "p", "target": "q"}
    whole = estimate(Log.from_frame(frame, **names), "ipws")["ipws"]
    row = estimate(Log.from_frame(thinned, **names, weight="w"), "ipws")["ipws"]
    exact = 0.1 * 0.05 + 0.9 * 0.2
    assert abs(row.value - exact) < 3 * row.standard_error
    assert whole.standard_error < row.standard_error < 2 * whole.standard_error
    ignored = estimate(Log.from_frame(thinned, **names), "ipws")["ipws"]
    assert ignored.value > 2 * exact


def test_whoever_cannot_use_weights_says_so():
    weighted, _ = pair()
    rows = estimate(weighted, ["ipw", "mips", "edr"], interval="empirical-likelihood")
    assert rows["ipw"].value is not None
    assert "row weights" in rows["ipw"].message
    for name in ("mips", "edr"):
        assert rows[name].status == "unavailable"
        assert "row weights" in rows[name].message
    lacks = {one.estimator: one.lacks for one in weighted.check().estimators}
    assert "row weights" in lacks["edr"]
    assert not lacks["ipws"]
    assert all(row.sensitivity is None for row in estimate(weighted, "ipws", sensitivity=True))


def test_a_shortlist_and_advice_use_weights():
    weighted, repeated = pair()
    ours, theirs = shortlist(weighted), shortlist(repeated)
    for one, other in zip(ours.policies, theirs.policies, strict=True):
        # The quantile is of draws by unit, equal in both.
        same(asdict(one), asdict(other), ("value", "low", "high"), one.name)
    found = [advise(made, target="new").recommended for made in (weighted, repeated)]
    assert found[0].value == pytest.approx(found[1].value, rel=1e-9)


@pytest.mark.parametrize(
    ("weight", "said"),
    [
        (np.zeros(N), "row 0, column 'count': 0 is not positive"),
        (-np.ones(N), "-1 is not positive"),
        (np.full(N, math.nan), "the value is missing"),
        (np.full(N, "many"), "'many' is not a finite number"),
    ],
)
def test_wrong_weights_are_refused(weight, said):
    with pytest.raises(UsageError, match=said):
        Log.from_frame(
            FRAME | {"count": weight}, **NAMES, target=np.full((N, 3), 1 / 3), weight="count"
        )
    with pytest.raises(UsageError, match="both reward and weight"):
        Log.from_frame(FRAME, **NAMES, target=np.full((N, 3), 1 / 3), weight="click")


def test_the_page_counts_rows_by_weight():
    pytest.importorskip("altair")
    from ope_bench.logs.page import weight_lines, weight_words

    importance = np.random.default_rng(2).exponential(size=N)
    importance[:40] = 0.0
    again = np.repeat(importance, WEIGHT)
    for one, other in zip(weight_lines(importance, WEIGHT), weight_lines(again), strict=True):
        assert one["share"] == pytest.approx(other["share"])
    # Copies of a row are one unit: means are those of repeated rows, the size is that of rows.
    assert weight_words(importance, WEIGHT).split(",")[0] == weight_words(again).split(",")[0]
    ones = np.ones(N, dtype=int)
    assert weight_words(importance, ones) == weight_words(importance)
