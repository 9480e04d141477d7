"""Intervals of estimates: what they refuse, and that records, stores and files keep them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ope_bench import DataError, Estimate, Interval, Problem, evaluate, params
from ope_bench.contracts.plugins import Estimator
from ope_bench.gate import baseline
from ope_bench.store import Store
from ope_bench.store.export import rows_of, writer_for
from support.stored_records import filled, record

OWN = {
    "interval_low": 0.25,
    "interval_high": 0.75,
    "interval_level": 0.9,
    "interval_kind": "guaranteed",
}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((0.5, 0.25), "low is 0.5, above high, 0.25"),
        ((float("nan"), 1), "low is nan; expected a finite number"),
        ((0, float("inf")), "high is inf; expected a finite number"),
        ((0, "wide"), "high is str; expected one real number"),
        ((0, 1, 1.0), "level is 1.0; expected a number between 0 and 1"),
        ((0, 1, 0.9, "exact"), "kind is 'exact'; expected one of 'asymptotic', "),
    ],
)
def test_an_interval_that_is_none_is_refused(given, message):
    with pytest.raises(DataError, match="interval: ") as caught:
        Interval(*given)
    assert message in str(caught.value)


def test_an_estimate_takes_an_interval_alone():
    with pytest.raises(DataError, match=r"interval is tuple; expected ope_bench\.Interval"):
        Estimate(0.5, interval=(0.0, 1.0))


def test_a_reward_outside_the_declared_range_is_named():
    tables = ("context", "embedding", "target_context", "target_embedding")
    logs: dict[str, Any] = {name: np.zeros((3, 1)) for name in tables}
    logs |= {name: np.zeros(3, int) for name in ("action", "target_action")}
    logs["n_actions"] = 2
    reward = np.array([0.0, 1.0, 1.5])
    with pytest.raises(DataError, match=r"reward\[2\] is 1\.5, outside .* \[0\.0, 1\.0\]"):
        Problem(**logs, reward=reward, reward_range=(0, 1))
    with pytest.raises(DataError, match=r"reward\[0\] is 0\.0, outside .* \[0\.5, 1\.5\]"):
        Problem(**logs, reward=reward, reward_range=(0.5, 1.5))
    with pytest.raises(DataError, match="expected two finite numbers in ascending order"):
        Problem(**logs, reward=reward, reward_range=(2, 0))
    assert Problem(**logs, reward=reward, reward_range=(0, 1.5)).reward_range == (0.0, 1.5)


@params
class Certain(Estimator):
    """The mean reward, with an interval of its own."""

    lost: bool = False

    def estimate(self, view):
        value = math.nan if self.lost else 0.5
        return Estimate(value, interval=Interval(0.25, 0.75, 0.9, "guaranteed"))


def test_a_trial_records_the_interval_of_an_estimate():
    (found,) = evaluate(Certain(), "saito-toy[n_samples=20,n_actions=10]", replicates=1)
    assert found.interval == Interval(0.25, 0.75, 0.9, "guaranteed")
    assert found.standard_error is None
    assert {name: found.as_json()[name] for name in OWN} == OWN
    (lost,) = evaluate(Certain(lost=True), "saito-toy[n_samples=20,n_actions=10]", replicates=1)
    assert lost.interval is None
    assert lost.interval_kind is None


def test_store_export_and_baseline_keep_the_interval(tmp_path: Path):
    path = tmp_path / "new.sqlite"
    filled(path, record(**OWN))
    with Store.open(path) as store:
        (result,) = store.results()
    assert result.record.interval == Interval(0.25, 0.75, 0.9, "guaranteed")
    (row,) = rows_of([result])
    assert {name: row[name] for name in OWN} == OWN
    writer_for(tmp_path / "x.jsonl")(tmp_path / "x.jsonl", iter([row]), ())
    assert OWN.items() <= json.loads((tmp_path / "x.jsonl").read_text(encoding="utf-8")).items()
    (kept,) = _through_a_baseline(tmp_path, result.record)
    assert kept.interval == result.record.interval
    (without,) = _through_a_baseline(tmp_path, record())
    assert without.interval is None
    assert "interval" not in (tmp_path / "baseline.json").read_text(encoding="utf-8")


def _through_a_baseline(folder: Path, one):
    path = folder / "baseline.json"
    facts = baseline.SuiteFacts("quick", "expected", 1)
    baseline.save(path, baseline.Baseline(facts, (one,)))
    return baseline.load(path).records
