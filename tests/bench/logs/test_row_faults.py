"""Faults of rows and of time, each found in a log that has it and in no log that is like it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ope_bench import Log, TargetPolicy, advise
from ope_bench.base.errors import UsageError
from ope_bench.logs.checks import check_log
from ope_bench.logs.finding import Check, Finding
from support.small_logs import write_small

N = 3000


def frame(seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(2, N)).round(6)
    p = 1 / (1 + np.exp(-x))
    a = (rng.random(N) < p).astype(int)
    return {
        "x": x,
        "y": y,
        "kind": rng.integers(4, size=N),
        "a": a,
        "r": (rng.random(N) < 0.3 + 0.2 * a).astype(float),
        "p": np.where(a == 1, p, 1 - p),
        "t": np.arange(N),
    }


def found(given: dict[str, Any], check: Check, **names: Any) -> Finding:
    half = TargetPolicy(table=np.full((len(given["a"]), 2), 0.5))
    columns = {
        "context": ["x", "y", "kind"], "categorical": ["kind"], "action": "a", "reward": "r",
        "propensity": "p", "time": "t", "target": half,
    }  # fmt: skip
    log = Log.from_frame(given, **(columns | names))
    return next(one for one in check_log(log).findings if one.check is check)


def rows(given: dict[str, Any], pick: Any) -> dict[str, Any]:
    return {name: values[pick] for name, values in given.items()}


@pytest.mark.parametrize("column", ["x", "kind"])
def test_rows_written_again_with_one_other_value_are_near_copies(column):
    given = frame()
    assert found(given, Check.NEAR_COPIES).passed
    again = rows(given, np.r_[:N, :100])
    again[column] = again[column] + np.r_[np.zeros(N), np.ones(100)]
    again["t"] = np.arange(N + 100)
    one = found(again, Check.NEAR_COPIES)
    assert (one.passed, one.subject) == (False, column)
    assert int(one.message.split()[0]) == pytest.approx(100, abs=5)


def test_few_contexts_are_not_near_copies_of_each_other():
    given = frame()
    given |= {"x": np.sign(given["x"]), "y": np.sign(given["y"])}
    given["p"] = np.full(N, 0.5)
    given["a"] = np.random.default_rng(3).integers(2, size=N)
    assert found(given, Check.NEAR_COPIES).passed


def test_users_who_come_again_are_seen_in_columns_that_coincide():
    given = frame()
    assert found(given, Check.COINCIDING).passed
    # Contexts drawn from a finite pool come again whole, users with something of the moment.
    pool = np.random.default_rng(1).integers(300, size=N)
    drawn = {name: given[name][pool] for name in ("x", "y")}
    assert not found(given | drawn, Check.COINCIDING).passed
    assert found(given | drawn | {"kind": given["kind"][pool]}, Check.COINCIDING).passed
    user = np.random.default_rng(1).permutation(np.repeat(np.arange(300), 10))
    again = given | {"x": given["x"][user], "y": given["y"][user]}
    one = found(again, Check.COINCIDING)
    assert (one.passed, set(one.subjects)) == (False, {"x", "y"})
    assert one.value > 0.9
    assert "Name `unit`" in one.first_action
    # Named, they are none; and a few segments that come again always are none.
    named = Log.from_frame(
        again | {"u": user}, context=["x", "y"], action="a", reward="r", propensity="p", unit="u",
        target=TargetPolicy(action="a"),
    )  # fmt: skip
    assert Check.COINCIDING not in {one.check for one in check_log(named).findings}
    few = user % 20
    segments = given | {"x": given["x"][few], "y": given["y"][few]}
    assert found(segments, Check.COINCIDING).passed


def test_context_columns_that_tell_rows_apart_are_identifiers():
    given = frame()
    assert found(given, Check.IDENTIFIER).passed
    number = found(given | {"x": np.random.default_rng(2).permutation(N)}, Check.IDENTIFIER)
    assert (number.passed, number.subject) == (False, "x")
    words = np.array([f"s{one}" for one in np.arange(N) // 2])
    text = found(given | {"kind": words}, Check.IDENTIFIER)
    assert (text.passed, text.subject) == (False, "kind")
    assert "kind" in text.first_action


def test_rows_that_are_missing_show_in_the_number_of_decisions(tmp_path):
    given = frame()
    assert found(given, Check.RETENTION, decisions=N).passed
    kept = found(given, Check.RETENTION, decisions=2 * N)
    assert (kept.passed, kept.value) == (False, 0.5)
    weighted = found(given | {"w": np.full(N, 2.0)}, Check.RETENTION, decisions=2 * N, weight="w")
    assert weighted.passed
    with pytest.raises(UsageError, match="decisions: 0"):
        found(given, Check.RETENTION, decisions=0)
    with pytest.raises(UsageError, match=f"decisions: {N - 1:,} is less than the {N:,} rows"):
        found(given, Check.RETENTION, decisions=N - 1)
    path = write_small(tmp_path)
    path.write_text(path.read_text() + "decisions: 8\n")
    checks = Log.read(path).check().findings
    assert next(one.value for one in checks if one.check is Check.RETENTION) == 0.5


def test_a_leak_of_any_shape_is_found():
    given = frame()
    rng = np.random.default_rng(5)
    for shape in (lambda x: x**2, lambda x: np.sin(2 * x), lambda x: 3 * x):
        known = shape(given["x"])
        known = known + 0.1 * known.std() * rng.normal(size=N)
        leak = found(given | {"r": known}, Check.LEAK)
        assert (leak.passed, leak.subject) == (False, "x")
        weak = known + known.std() * rng.normal(size=N)
        assert found(given | {"r": weak}, Check.LEAK).passed


def adaptive() -> dict[str, Any]:
    """A logger that learns: from even chances to .95 for action 1; its propensities are right."""
    given, rng = frame(), np.random.default_rng(4)
    p = np.repeat([0.5, 0.7, 0.85, 0.95], N // 4)
    a = (rng.random(N) < p).astype(int)
    r = (rng.random(N) < 0.3 + 0.2 * a).astype(float)
    return given | {"a": a, "r": r, "p": np.where(a == 1, p, 1 - p)}


def test_a_logger_that_learns_is_fine_unless_its_propensities_are_averaged():
    given = adaptive()
    assert found(given, Check.ACTION_DRIFT).value > 0.1
    for check in (Check.ACTION_DRIFT, Check.WEIGHT_PARTS, Check.REWARD_DRIFT, Check.LAST_DRIFT):
        assert found(given, check).passed, check
    share = given["a"].mean()
    averaged = given | {"p": np.where(given["a"] == 1, share, 1 - share)}
    assert found(averaged, Check.MEAN_WEIGHT).passed
    parts = found(averaged, Check.WEIGHT_PARTS)
    assert parts.passed is False
    assert "of the time" in parts.subjects[0]
    assert found(averaged, Check.ACTION_DRIFT).passed is False


def late(n: int = 8000) -> dict[str, Any]:
    """Conversions that come 600 rows late on average; the world does not change."""
    rng = np.random.default_rng(21)
    x = rng.integers(0, 2, n)
    logging = np.array([[0.7, 0.3], [0.3, 0.7]])[x]
    new = np.array([[0.2, 0.8], [0.8, 0.2]])[x]
    rate = np.array([[0.2, 0.5], [0.5, 0.2]])[x]
    a = (rng.random(n) > logging[:, 0]).astype(int)
    every = np.arange(n)
    come = rng.random(n) < rate[every, a]
    seen = come & (every + rng.exponential(600, n) < n)
    return {
        "s": x, "a": a, "r": seen.astype(int), "t": every, "p": logging[every, a],
        "q": new[every, a],
    }  # fmt: skip


def test_rewards_that_still_come_are_left_out_and_the_advice_does_not_repeat_itself():
    """The true value is 0.44; the newest rows alone would give 0.18."""
    given = late()
    columns = {"context": ["s"], "categorical": ["s"], "action": "a", "reward": "r"}
    columns |= {"propensity": "p", "target": "q", "time": "t"}
    first = advise(Log.from_frame(given, **columns))
    (drop,) = [one for one in first.checks if one.check is Check.LAST_DRIFT]
    assert first.verdict == "caution"
    assert "recent rows alone" not in first.recommended.first_action
    newest = int(drop.cure.split("newest ")[1].split(" ")[0].replace(",", ""))
    assert 800 <= newest <= 3000
    rest = advise(Log.from_frame(rows(given, slice(0, 8000 - newest)), **columns))
    assert rest.recommended.value == pytest.approx(0.42, abs=0.02)
    assert Check.LAST_DRIFT not in {one.check for one in rest.checks if not one.passed}
    for part in (4000, 800):
        again = advise(Log.from_frame(rows(given, slice(8000 - part, 8000)), **columns))
        assert "recent rows alone" not in again.recommended.first_action


@pytest.mark.parametrize(("step", "passed"), [(0.0, True), (0.25, False)])
def test_a_reward_that_changes_all_along_is_drift_and_not_late(step, passed):
    given = frame()
    given["r"] = given["r"] - step * np.arange(N) / N
    assert found(given, Check.REWARD_DRIFT).passed is passed
    assert found(given, Check.LAST_DRIFT).passed
