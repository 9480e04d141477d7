"""Predicted differences: made from committed trials alone, and judged by figures of other code."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
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
from judging.pages.prediction import predictions_page

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


def leaves(told, *path):
    """Every figure and word of nested mappings and lists, by its path."""
    if isinstance(told, dict | list):
        pairs = told.items() if isinstance(told, dict) else enumerate(told)
        return {at: one for key, its in pairs for at, one in leaves(its, *path, key).items()}
    return {path: told}


def test_the_verdict_is_what_the_opened_trials_give():
    told = json.loads((FOLDER / "registered.json").read_text(encoding="utf-8"))
    verdict = leaves(json.loads((FOLDER / "verdict.json").read_text(encoding="utf-8")))
    opened = settings_of(predictions.OPENED, "tables")
    again = leaves({"data_sets": predictions.data_sets(), **judged(told, opened)})
    assert verdict.keys() == again.keys()
    for at, one in verdict.items():
        near = again[at] if isinstance(one, str) else pytest.approx(again[at], rel=1e-9, abs=1e-12)
        assert one == near, at
    assert verdict["sources",] == 26


def test_the_parts_of_a_verdict_are_those_by_hand():
    """Overlap is 10, 100 and 1,000: what is predicted is 1, 2 and 3 times the second weight."""
    weights = {"dr-eb": 0.1, "dm": 1.0, "dr-os": -0.5, "sndr": -0.6, "logging-average": 2.0}
    found = {"dr-eb": 0.1, "dm": 2.0, "dr-os": 0.5, "sndr": 0.3, "logging-average": 3.0}
    document = {
        "facts": "plain",
        "weights": {name: [0.0, one, 0.0] for name, one in weights.items()},
        "naive": {"zero": {"facts": "none", "weights": {name: [0.0] for name in weights}}},
    }
    # Source c has two settings, whose means are those of overlap 1,000.
    settings = [
        setting(source, 10.0**x, **{name: x * one for name, one in found.items()})
        for source, x in (("a", 1), ("b", 2), ("c", 2), ("c", 4))
    ]
    verdict = judged(document, settings)
    assert (verdict["sources"], verdict["settings"]) == (3, 4)
    slopes = {"dr-eb": 1.0, "dm": 2.0, "dr-os": -1.0, "sndr": -0.5}
    for name, slope in slopes.items():
        its = verdict["slopes"][f"{name}/ipws"]
        # The points lie on a line: the interval has no width.
        assert [its[key] for key in ("value", "low", "high")] == pytest.approx([slope] * 3)
        assert its["reached"] is (name == "dr-eb")
        assert verdict["mean"][f"{name}/ipws"] == pytest.approx(
            [2 * weights[name], 2 * found[name]]
        )
    x = np.array([1.0, 2.0, 3.0])
    own, came = (np.concatenate([x * one[name] for name in NAMED]) for one in (weights, found))
    assert verdict["slope"]["value"] == pytest.approx(np.polyfit(own, came, 1)[0])
    # The mean square of 1, 2 and 3 is 14 / 3.
    off = 14 / 3 * np.mean([(weights[name] - found[name]) ** 2 for name in NAMED])
    none = 14 / 3 * np.mean([found[name] ** 2 for name in NAMED])
    assert verdict["errors"] == pytest.approx(
        {"registered": off**0.5, "zero": none**0.5, "no difference": none**0.5}
    )
    # Ranks found of ipws, dr-eb, sndr, dr-os, dm and the average are 1 to 6; predicted are
    # 3, 4, 1, 2, 5, 6. The textbook rule says 3, 3, 3, 3, 3, 6.
    assert verdict["order"] == pytest.approx({"registered": 19 / 35, "textbook": (3 / 7) ** 0.5})
    # ipws is best; the nine-tenths quantile of three lies .8 of the way from the second.
    for choice, name in (("always dr-os", "dr-os"), ("least predicted", "sndr")):
        _, middle, high = np.exp(x * found[name])
        its = dict(verdict["regret"][choice])
        assert its.pop("where") == "c"
        assert its == pytest.approx(
            {"median": middle, "ninth": middle + 0.8 * (high - middle), "worst": high}
        )
    assert verdict["regret"]["always ipws"]["worst"] == pytest.approx(1.0)
    its = verdict["by_source"]["c"]
    assert its["settings"] == 2
    assert its["predicted"] == pytest.approx([3 * weights[name] for name in NAMED])
    assert its["found"] == pytest.approx([3 * found[name] for name in NAMED])
    assert its["regret"] == pytest.approx(np.exp(1.5))


def test_an_error_counts_as_a_tenth_of_the_standard_error_and_a_failure_as_the_larger(tmp_path):
    """Estimates of two data sets whose value is .5; the logged average has standard errors."""
    estimates = {
        "logging-average": (0.7, 0.8), "ipws": (0.6, 0.9), "dr-eb": (0.5, 0.5),
        "dm": (0.5, None), "dr-os": (0.51, 0.51), "sndr": (0.52, 0.48),
    }  # fmt: skip
    diagnostics = json.dumps({"effective_sample_size": 100.0, "reward_r2": 0.3})
    rows = [
        {
            "environment_params": json.dumps({"dataset": "keel:zoo-3"}), "estimator": name,
            "params": "{}", "replicate": k, "status": "failed" if value is None else "ok",
            "estimate": value, "standard_error": (0.1, 0.2)[k], "truth_expected": 0.5,
            "diagnostics": diagnostics,
        }
        for name, each in estimates.items() for k, value in enumerate(each)
    ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "trials.parquet")
    (one,) = settings_of(tmp_path / "trials.parquet", "tables")
    assert (one.source, one.ess, one.r2) == ("zoo", 100.0, 0.3)
    root = {name: np.exp(log) for name, log in one.errors.items()}
    assert root == pytest.approx(
        {
            "logging-average": np.sqrt((0.2**2 + 0.3**2) / 2),
            "ipws": np.sqrt((0.1**2 + 0.4**2) / 2),
            "dm": np.sqrt(0.4**2 / 2),
            "dr-eb": 0.015, "dr-os": 0.015, "sndr": 0.02,
        }
    )  # fmt: skip


def test_the_page_names_the_table_that_is_missing_and_how_little_overlap_varied():
    page = predictions_page(FOLDER.parent)
    # base_of calls it heart, which is another table.
    assert re.search(r"Of 27 registered, `cleveland-0_vs_4`\s+is missing", page)
    assert "heart" not in page
    frame = pq.read_table(predictions.OPENED).to_pandas()
    frame = frame[frame["estimator"] == "ipws"]
    assert {json.loads(one)["n_samples"] for one in frame["environment_params"]} == {1000}
    sizes = 1000 * frame.groupby("environment_params")["ess_fraction"].median()
    assert f"from {sizes.min():.0f} to {sizes.max():.0f} of 1,000 rows" in " ".join(page.split())
