"""Reliability of propensities against one action at a time."""

import numpy as np
import pytest

from ope_bench import Log, TargetPolicy
from ope_bench.logs.checking.checks import skewed_z
from ope_bench.logs.checking.reliability import LEAST_ROWS, reliability_of
from ope_bench.logs.paired import standard_error


@pytest.mark.parametrize("unit", [None, "session"])
def test_moments_in_one_pass_are_those_of_each_action(unit):
    rng = np.random.default_rng(0)
    n, k = 900, 12
    logging = rng.dirichlet(np.full(k, 0.6), n) * 0.99 + 0.01 / k
    action = (np.cumsum(logging, axis=1) < rng.random(n)[:, None]).sum(axis=1)
    frame = {"x": rng.normal(size=n), "a": action, "r": rng.random(n)}
    frame |= {"p": logging[np.arange(n), action], "session": rng.integers(250, size=n)}
    # The last action is too rare to be tested.
    keep = (action != k - 1) | (np.cumsum(action == k - 1) < LEAST_ROWS)
    frame = {name: values[keep] for name, values in frame.items()}
    log = Log.from_frame(
        frame,
        context=["x"],
        action="a",
        reward="r",
        propensity="p",
        unit=unit,
        target=TargetPolicy(sampled="a"),
    )
    found = reliability_of(log)
    count = np.bincount(log.action, minlength=k)
    assert found.action.tolist() == np.flatnonzero(count >= LEAST_ROWS).tolist()
    assert k - 1 not in found.action
    groups = np.arange(log.n) if unit is None else log.unit
    for place, one in enumerate(found.action):
        terms = np.where(log.action == one, 1 / log.propensity, 0.0)
        assert found.mean[place] == pytest.approx(terms.mean())
        assert found.error[place] == pytest.approx(standard_error(terms - 1, groups), rel=0.2)
        assert found.z[place] == pytest.approx(skewed_z(terms - 1, groups), rel=1e-6)
    if unit is None:
        errors = [
            np.where(log.action == one, 1 / log.propensity, 0.0).std(ddof=1) / log.n**0.5
            for one in found.action
        ]
        assert found.error == pytest.approx(errors)


def test_a_log_without_propensities_has_none():
    frame = {"x": np.arange(4.0), "a": [0, 1, 0, 1], "r": np.ones(4)}
    log = Log.from_frame(
        frame, context=["x"], action="a", reward="r", target=TargetPolicy(sampled="a")
    )
    assert reliability_of(log) is None
