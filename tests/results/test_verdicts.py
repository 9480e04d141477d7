"""Verdicts of tools on logs whose answer is known: what they say, and what it costs."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from judging.verdicts import TOOLS, lift_of, sure
from outside_worlds import FAULTS, LOGGERS, outside_log

from support.paths import ROOT

LOG: dict[str, Any] = {
    "truth": 1.2,
    "today": 1.0,
    "deviation": 2.0,
    "error": 0.0,
    "average": 1.0,
    "rows": 2_000,
    "size": 1_700.0,
    "better": "better",
    "ipws": [1.1, 0.9, 1.3],
}


def said(**changed: Any) -> dict[str, str]:
    return {tool: answer(LOG | changed) for tool, answer in TOOLS.items()}


def test_each_tool_looks_at_its_own_figure() -> None:
    assert list(said().values()) == ["ship", "ship", "test", "ship", "test", "ship"]
    assert list(said(ipws=[1.1, 1.05, 1.3], size=1_500.0).values())[2:4] == ["ship", "test"]
    assert list(said(ipws=[0.7, 0.6, 0.8], better="worse").values())[:4] == ["stop"] * 4
    assert list(said(size=900.0, rows=1_000).values())[3] == "test"
    assert list(said(ipws=None, size=None, better="cannot tell").values())[:4] == ["test"] * 4


def test_a_lift_is_in_deviations_and_sure_beyond_two_errors() -> None:
    assert lift_of(LOG) == pytest.approx(0.1)
    assert sure(LOG)
    assert not sure(LOG | {"error": 0.11})
    assert not sure(LOG | {"truth": 1.01})


def test_the_sentence_of_the_readme_is_that_of_the_logs() -> None:
    every = json.loads((ROOT / "results/verdicts/logs.json").read_text(encoding="utf-8"))
    logs = [one for one in every if one.get("deviation")]
    worse = [one for one in logs if sure(one) and lift_of(one) < 0]
    assert not [one for one in worse if TOOLS["`advise`"](one) == "ship"]
    words = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert f"Of {len(worse)} worse policies `advise` called none better" in words


@pytest.mark.parametrize("logger", LOGGERS)
def test_a_world_of_numpy_has_the_values_that_its_log_shows(logger: str) -> None:
    one = outside_log(7, logger, None)
    gain, p, arm = (one.frame[name] for name in ("gain", "p", "arm"))
    error = gain.std() / np.sqrt(len(gain))
    assert abs(gain.mean() - one.today) < 4 * error
    np.testing.assert_allclose(one.new_policy.sum(axis=1), 1.0)
    if logger != "rule":  # which lacks support
        weight = one.new_policy[np.arange(len(arm)), arm] / p
        spread = (weight * gain).std() / np.sqrt(len(gain))
        assert abs((weight * gain).mean() - one.truth) < 4 * spread
        assert abs(weight.mean() - 1) < 4 * weight.std() / np.sqrt(len(gain))
    assert 0 <= one.signal <= 1


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_changes_the_log_and_not_its_truth(fault: str) -> None:
    right, wrong = outside_log(8, "softmax", None), outside_log(8, "softmax", fault)
    if fault != "hidden cause":  # which is a part of the world
        assert (right.truth, right.today) == (wrong.truth, wrong.today)
    assert right.given != wrong.given or any(
        not np.array_equal(right.frame[name], wrong.frame[name]) for name in right.frame
    )
    assert len(wrong.new_policy) == len(wrong.frame["gain"])
