"""`--by`: each segment's value against its own rows, simultaneous intervals, who loses."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.stats import norm

from ope_bench import Log, UsageError, advise, estimate
from ope_bench.cli.app import invoke
from ope_bench.logs.segments import simultaneous_means

ROWS = 2000


def log_of(seed=0, **other):
    """Return a log where the new policy is worse for group b alone."""
    rng = np.random.default_rng(seed)
    group = np.array(["a", "b", "c"])[rng.integers(3, size=ROWS)]
    action = rng.integers(2, size=ROWS)
    rate = np.where(group == "b", 0.7 - 0.4 * action, 0.3 + 0.4 * action)
    frame = {
        "x": rng.standard_normal(ROWS),
        "group": group,
        "item": np.array(["old", "new"])[action],
        "r": (rng.random(ROWS) < rate).astype(float),
        "p": np.full(ROWS, 0.5),
        "new": np.where(action == 1, 0.9, 0.1),
    }
    frame |= other
    given = {"context": ["x"], "action": "item", "reward": "r", "propensity": "p"}
    return Log.from_frame(frame, **given, target="new"), frame


def test_values_are_means_of_terms_and_one_segment_has_the_normal_interval():
    rng = np.random.default_rng(1)
    terms, codes = rng.standard_normal(4000), rng.integers(3, size=4000)
    found = simultaneous_means(terms, codes, 3, np.arange(4000), 0.95)
    quantile = norm.ppf((1 + 0.95 ** (1 / 3)) / 2)
    for at, (mean, half) in enumerate(found):
        part = terms[codes == at]
        assert mean == pytest.approx(part.mean())
        assert half == pytest.approx(quantile * part.std() / np.sqrt(len(part)), rel=0.06)


def test_intervals_hold_for_all_segments_at_once():
    rng, missed = np.random.default_rng(2), 0
    for _ in range(100):
        terms, codes = rng.exponential(size=400), rng.integers(4, size=400)
        found = simultaneous_means(terms, codes, 4, np.arange(400), 0.95)
        missed += any(abs(mean - 1) > half for mean, half in found)
    assert missed <= 14


def test_a_policy_equal_to_the_logger_has_no_lift_in_any_segment():
    propensity = np.random.default_rng(3).uniform(0.1, 0.9, ROWS)
    log, _ = log_of(p=propensity, new=propensity)
    for one in estimate(log, ["ipws"], by="group").targets[0].segments:
        assert (one.lift, one.lift_low, one.lift_high) == (0.0, 0.0, 0.0)


def test_rows_of_one_unit_widen_segments():
    rng = np.random.default_rng(3)
    terms, codes = np.repeat(rng.standard_normal(500), 4), np.repeat(rng.integers(2, size=500), 4)
    naive = simultaneous_means(terms, codes, 2, np.arange(2000), 0.95)
    right = simultaneous_means(terms, codes, 2, np.repeat(np.arange(500), 4), 0.95)
    assert right[0][1] == pytest.approx(2 * naive[0][1], rel=0.1)


def test_who_loses_is_said_and_values_are_those_of_the_rows():
    log, frame = log_of()
    found = estimate(log, ["ipws"], by="group")
    (target,) = found.targets
    weight = frame["new"] / frame["p"]
    for one in target.segments:
        part = frame["group"] == one.level
        assert one.rows == part.sum()
        by_hand = (weight * frame["r"])[part].sum() / weight[part].sum()
        assert one.value == pytest.approx(by_hand, abs=1e-9)
        assert one.low < one.value < one.high
    lift = {one.level: (one.lift_low, one.lift_high) for one in target.segments}
    assert lift["b"][1] < 0 < lift["a"][0]
    text = " ".join(repr(found).split())
    assert "worse for: b" in text
    assert "better for: a, c" in text


def test_advice_and_estimates_have_the_same_segments():
    log, _ = log_of()
    assert "segments" not in estimate(log, ["ipws"]).as_json()
    estimates = estimate(log, by="group").as_json()["segments"]
    advice = advise(log, by="group")
    assert [one["level"] for one in advice.as_json()["segments"]] == ["a", "b", "c"]
    assert advice.as_json()["segments"] == estimates
    assert "worse for: b" in repr(advice)


def test_rows_left_out_do_not_move_segments():
    _, frame = log_of()
    lacking = {name: values.astype(object) for name, values in frame.items()}
    lacking["r"][:5] = None
    given = {"context": ["x"], "action": "item", "reward": "r", "propensity": "p"}
    part = Log.from_frame(lacking, **given, target="new", drop_missing=True)
    whole = Log.from_frame({k: v[5:] for k, v in frame.items()}, **given, target="new")
    found = [estimate(one, ["ipws"], by="group").targets[0].segments for one in (part, whole)]
    assert found[0] == found[1]


def test_few_rewards_in_a_segment_have_no_interval():
    rare = np.array(["much"] * (ROWS - 40) + ["few"] * 40)
    log, _ = log_of(where=rare)
    segments = estimate(log, ["ipws"], by="where").targets[0].segments
    few, much = segments
    assert few.value is not None
    assert few.low is None
    assert much.low is not None


def test_without_terms_it_is_said_and_several_policies_show_theirs():
    log, frame = log_of()
    text = " ".join(repr(estimate(log, ["dm"], by="group")).split())
    assert "worse for" not in text
    assert "no value: none may be stated" in text
    given = {"context": ["x"], "action": "item", "reward": "r", "propensity": "p"}
    two = Log.from_frame(
        frame | {"old": 1 - frame["new"]}, **given, target={"a": "new", "b": "old"}
    )
    text = " ".join(repr(advise(two, by="group")).split())
    assert text.count("worse for: b") == 1
    assert text.count("worse for: a, c") == 1


@pytest.mark.parametrize("column", ["x", "nothing", "same", "r", "item", "p"])
def test_a_column_of_no_segments_is_refused(column):
    log, _ = log_of(same=np.full(ROWS, "one"))
    with pytest.raises(UsageError, match=f"'{column}'"):
        estimate(log, ["ipws"], by=column)


def test_the_command_has_segments(tmp_path, capsys):
    _, frame = log_of()
    lines = [
        ",".join(frame),
        *(",".join(map(str, row)) for row in zip(*frame.values(), strict=True)),
    ]
    (tmp_path / "log.csv").write_text("\n".join(lines))
    named = ["--context", "x", "--action", "item", "--reward", "r", "--propensity", "p"]
    named += ["--target-probability", "new", "--est", "ipws", "--by", "group"]
    assert invoke(["estimate", str(tmp_path / "log.csv"), *named, "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    keys = ["level", "rows", "value", "low", "high", "lift", "lift_low", "lift_high"]
    assert list(document["segments"][0]) == keys
    assert document["targets"][0]["segments"] == document["segments"]


def test_segments_of_ipws_are_ratios_within_the_range_also_of_weighted_rows():
    rng = np.random.default_rng(8)
    n = 300
    level = np.array(["a", "b", "c"])[np.arange(n) % 3]
    frame = {"x": level, "a": rng.integers(0, 2, n), "r": rng.integers(0, 2, n)}
    frame |= {"p": np.full(n, 0.5), "v": np.array([1.0, 4.0, 1.6])[np.arange(n) % 3]}
    # Nothing but ones where the weights are large.
    frame["q"] = np.where(level == "a", 0.9, np.where(level == "b", 0.6, 0.0))
    frame["r"] = np.where(level == "a", 1, frame["r"])
    given = {"context": ["x"], "action": "a", "reward": "r", "propensity": "p", "target": "q"}
    for weight in (None, "v"):
        log = Log.from_frame(frame, **given, weight=weight)
        made = estimate(log, ["ipws"], by="x").targets[0].segments
        for one in made[:2]:
            inside = frame["x"] == one.level
            w = frame["q"][inside] * (frame["v"][inside] if weight else 1.0)
            right = (w * frame["r"][inside]).sum() / w.sum()
            assert one.value == pytest.approx(right)
            assert one.lift == pytest.approx(right - frame["r"][inside].mean())
        assert made[0].value == 1.0
        assert (made[2].rows, made[2].value, made[2].lift) == (100, None, None)
