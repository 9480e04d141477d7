"""Reliability of propensities against one action at a time."""

import numpy as np
import pytest

from ope_bench import Log, TargetPolicy
from ope_bench.logs.checks import LEAST_ROWS, hall_z, reliability_of, skewed_z
from ope_bench.statistics.unit_errors import standard_error
from support.small_logs import log_of_columns


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
    log = log_of_columns(frame, unit=unit, target=TargetPolicy(sampled="a"))
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


def log_of_two(rows, propensity):
    """Action 0 in the first half of the rows, 1 in the others."""
    action = np.repeat([0, 1], rows)
    frame = {"x": np.arange(2.0 * rows), "a": action, "r": np.ones(2 * rows)}
    frame |= {"p": np.where(action == 0, *propensity)}
    return Log.from_frame(
        frame,
        context=["x"],
        action="a",
        reward="r",
        propensity="p",
        target=TargetPolicy(sampled="a"),
    )


@pytest.mark.parametrize(("rows", "tested"), [(29, []), (30, [0, 1])])
def test_thirty_rows_of_an_action_are_enough(rows, tested):
    assert reliability_of(log_of_two(rows, (0.5, 0.5))).action.tolist() == tested


def test_the_mean_and_its_error_by_hand():
    """Of 80 terms half are 1/p, the others 0: deviation 1/(2p), beside sqrt(80/79)."""
    found = reliability_of(log_of_two(40, (0.25, 0.5)))
    assert found.mean == pytest.approx([2.0, 1.0])
    assert found.error == pytest.approx(np.array([2.0, 1.0]) / np.sqrt(79))
    # No skewness, but the mean is far from its expectation.
    assert found.z == pytest.approx([np.sqrt(79) / 2, 0.0])


def test_halls_statistic_by_hand():
    """Skewness 2 of 9 terms with mean 0.5 and deviation 1: (.5 + 2 / 54 + 2 / 12 + 1 / 54) 3."""
    found = hall_z(np.array([0.5]), np.array([1.0]), np.array([2.0]), 9)
    assert found == pytest.approx([(0.5 + 1 / 27 + 1 / 6 + 1 / 54) * 3])


def test_z_of_skewed_terms_grows_with_their_mean():
    """Weights of a rule: a fifth of the new policy's decisions, and a few rows with most of it."""
    mean = np.linspace(-3.0, 3.0, 61)
    z = hall_z(mean, np.ones(61), np.full(61, 5.0), 1500)
    assert (np.diff(z) > 0).all()


@pytest.mark.parametrize(
    ("mean", "deviation", "z"),
    [(0.5, 0.0, np.inf), (-0.5, 1e-9, -np.inf), (0.0, 0.0, 0.0), (1e-10, 0.0, 0.0)],
)
def test_a_mean_without_spread_is_right_or_infinitely_far(mean, deviation, z):
    assert hall_z(np.array([mean]), np.array([deviation]), np.array([1e-20]), 9) == [z]


def test_a_log_without_propensities_has_none():
    frame = {"x": np.arange(4.0), "a": [0, 1, 0, 1], "r": np.ones(4)}
    log = Log.from_frame(
        frame, context=["x"], action="a", reward="r", target=TargetPolicy(sampled="a")
    )
    assert reliability_of(log) is None


@pytest.mark.parametrize("units", [1, 2, 3])
def test_few_units_have_the_moments_of_their_sums(units):
    action = np.repeat([0, 1], [30, 60])
    session = np.arange(90) % 7 % units
    frame = {"x": np.arange(90.0), "a": action, "r": np.ones(90), "session": session}
    frame |= {"p": np.where(action == 0, 0.25, 0.5)}
    log = log_of_columns(frame, unit="session", target=TargetPolicy(sampled="a"))
    found = reliability_of(log)
    size = np.bincount(session)
    for place, weight in enumerate((4.0, 2.0)):
        total = np.bincount(session, weights=weight * (action == place))
        distance = total - size
        error = np.sqrt(distance.var(ddof=1) / units) / size.mean() if units > 1 else 0.0
        assert found.mean[place] == pytest.approx(1 + distance.mean() / size.mean())
        assert found.error[place] == pytest.approx(error, abs=1e-9)


def test_units_that_a_part_of_a_log_lacks_do_not_count():
    rng = np.random.default_rng(3)
    columns = {"x": rng.random(300), "a": rng.integers(2, size=300), "r": rng.random(300)}
    columns |= {"p": np.full(300, 0.5), "u": np.arange(300) // 3}
    given = {"unit": "u", "target": TargetPolicy(sampled="a")}
    part = log_of_columns(columns, **given).part(np.arange(180, 300))
    alone = {name: values[180:] for name, values in columns.items()}
    found, expected = reliability_of(part), reliability_of(log_of_columns(alone, **given))
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-12)
    np.testing.assert_allclose(found.z, expected.z, rtol=1e-12)
