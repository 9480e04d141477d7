"""Predicted differences: made from committed trials alone, and judged by figures of other code."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from draws import predictions
from judging.claims.differences import (
    NAMED,
    Model,
    SettingErrors,
    base_of,
    calibration,
    fitted,
    judged,
    order_correlation,
    regrets,
    settings_of,
)

FOLDER: Path = predictions.FOLDER


def setting(source, ess=100.0, r2=0.5, kind="tables", **differences):
    names = ("dr-eb", "dm", "dr-os", "sndr", "logging-average")
    errors = {"ipws": -1.0, **{name: -1.0 + differences.get(name, 0.0) for name in names}}
    return SettingErrors(
        kind, source, ess, r2, {k.replace("_", "-"): v for k, v in errors.items()}
    )


def test_the_registered_predictions_are_what_committed_trials_give():
    told = json.loads((FOLDER / "registered.json").read_text(encoding="utf-8"))
    again = json.loads(json.dumps(predictions.document(predictions.opened())))
    # Digests are those of the day: the files have gained columns since.
    moved = {"date", "made_from"}
    assert {k: one for k, one in told.items() if k not in moved} == {
        k: one for k, one in again.items() if k not in moved
    }


def test_no_source_of_the_predictions_is_one_of_the_unopened():
    import yaml

    suite = yaml.safe_load((FOLDER / "unopened.yaml").read_text(encoding="utf-8"))
    unopened = [base_of(name) for name in suite["environments"][0]["multiclass"]["dataset"]]
    assert len(set(unopened)) == len(unopened) == 27
    assert not set(unopened) & {one.source for one in predictions.opened()}


def test_the_slope_and_its_interval_are_those_by_numpy():
    rng = np.random.default_rng(0)
    left = rng.standard_normal((12, 4))
    right = 0.7 * left + 0.3 * rng.standard_normal((12, 4))
    found = calibration(left, right)
    assert found.value == pytest.approx(np.polyfit(left.ravel(), right.ravel(), 1)[0])
    each = [
        np.polyfit(np.delete(left, k, 0).ravel(), np.delete(right, k, 0).ravel(), 1)[0]
        for k in range(12)
    ]
    half = 2.200985 * np.sqrt(11 * np.var(each))
    assert (found.low, found.high) == pytest.approx((found.value - half, found.value + half))
    assert found.reached
    assert not calibration(left, 2 * left).reached


def test_a_fit_finds_what_facts_decide_and_kinds_weigh_alike():
    rng = np.random.default_rng(1)
    rows = [(10 ** rng.uniform(1, 3), rng.uniform(0, 1)) for _ in range(400)]
    tables = [
        setting(f"s{k}", ess, r2, dm=2 * np.log10(ess) - 3 * r2)
        for k, (ess, r2) in enumerate(rows)
    ]
    model = fitted(tables, "plain")
    np.testing.assert_allclose(model.weights["dm"], [0.0, 2.0, -3.0], atol=0.05)
    mixed = [setting(f"t{k}", dm=1.0) for k in range(2)]
    mixed += [setting(f"w{k}", kind="worlds", dm=0.0) for k in range(8)]
    assert fitted(mixed, "none").weights["dm"] == pytest.approx([0.5])


def test_regret_is_over_the_best_of_a_source():
    settings = [setting("a", dm=-0.5), setting("a", dm=0.1), setting("b", dm=1.0)]
    assert regrets(settings, lambda _: "ipws") == pytest.approx({"a": np.exp(0.2), "b": 1.0})


def test_a_right_model_has_the_slope_one_and_the_whole_order():
    model = Model("plain", {name: [0.1 * k, 0.2, -0.3 - k] for k, name in enumerate(NAMED)})
    model = Model("plain", {**model.weights, "logging-average": [2.0, 0.0, 0.0]})
    settings = []
    for k in range(8):
        one = setting(f"s{k}", ess=10.0 * (k + 1), r2=k / 8)
        each = {name: model.difference(one, name) for name in model.weights}
        settings.append(setting(f"s{k}", one.ess, one.r2, **each))
    document = {"facts": "plain", "weights": model.weights, "naive": {}}
    verdict = judged(document, settings)
    assert verdict["slope"]["value"] == pytest.approx(1.0)
    assert verdict["errors"]["registered"] == pytest.approx(0.0, abs=1e-9)
    assert verdict["order"]["registered"] == pytest.approx(1.0)
    assert verdict["order"]["textbook"] < 1.0
    assert (
        verdict["regret"]["least predicted"]["worst"] < verdict["regret"]["always sndr"]["worst"]
    )
    assert order_correlation(settings, lambda *_: 0.0) == 0.0


def test_the_verdict_is_what_the_opened_trials_give():
    told = json.loads((FOLDER / "registered.json").read_text(encoding="utf-8"))
    verdict = json.loads((FOLDER / "verdict.json").read_text(encoding="utf-8"))
    again = judged(told, settings_of(FOLDER / "opened.parquet", "tables"))
    assert verdict["sources"] == again["sources"] == 26
    for name in ("value", "low", "high"):
        assert verdict["slope"][name] == pytest.approx(again["slope"][name])
    for name, error in again["errors"].items():
        assert verdict["errors"][name] == pytest.approx(error)
    for name, regret in again["regret"].items():
        assert verdict["regret"][name]["worst"] == pytest.approx(regret["worst"])
