"""Optional arrays of lists, several loggers and action masks: validation, access, rows."""

from dataclasses import replace

import numpy as np
import pytest

from ope_bench import Access, AccessError, DataError, Estimate, Estimator, UnavailableError, View
from ope_bench.contracts.data import ROW_ARRAYS
from ope_bench.contracts.plugins import refuse_unused
from ope_bench.contracts.random import DataSeed
from ope_bench.contracts.resampling import problem_rows
from ope_bench.contracts.view import FitCache
from support import golden_log as golden

ARRAYS = {
    "unit": np.array([0, 0, 0, 1, 1, 1]),
    "slot": np.array([0, 1, 2, 0, 1, 2]),
    "prefix_propensity": np.linspace(0.1, 0.9, 12).reshape(6, 2),
    "joint_propensity": np.linspace(0.2, 0.8, 12).reshape(6, 2),
    "position_marginals": np.linspace(0.01, 0.99, 36).reshape(6, 3, 2),
    "stratum": np.array([0, 1, 0, 1, 0, 1]),
    "predicted_reward_wanted": np.linspace(0, 1, 18).reshape(6, 3),
    "action_mask": np.array([[1, 1, 1]] * 5 + [[0, 1, 1]]),
}
GATED = (
    "prefix_propensity",
    "joint_propensity",
    "position_marginals",
    "stratum",
    "action_mask",
    "predicted_reward_wanted",
)


def problem(**changes):
    """Golden log with all optional arrays."""
    return replace(golden.problem(), **ARRAYS | changes)


def view_of(log, access):
    return View(log, access, seed=DataSeed("golden", 0, 0), fit_cache=FitCache())


@pytest.mark.parametrize("name", GATED)
def test_each_array_has_an_access_flag_of_its_own(name):
    flag = Access[name.upper()]
    assert flag.words() == [name]
    view = view_of(problem(), flag)
    np.testing.assert_array_equal(getattr(view, name), ARRAYS[name])
    bare = view_of(problem(), Access.SAMPLES)
    with pytest.raises(AccessError, match=name):
        getattr(bare, name)
    assert bare.violations == [name]
    with pytest.raises(UnavailableError, match=name):
        view_of(golden.problem(), flag)


def test_rows_of_a_view_and_of_a_problem_take_every_array():
    rows = np.array([5, 0, 0, 3])
    every = Access(0)
    for name in GATED:
        every |= Access[name.upper()]
    part = view_of(problem(), every).rows(rows, rows)
    drawn = problem_rows(problem(), rows, rows)
    for name in (*GATED, "slot"):
        np.testing.assert_array_equal(getattr(part, name), ARRAYS[name][rows])
        np.testing.assert_array_equal(getattr(drawn, name), ARRAYS[name][rows])
        assert name in ROW_ARRAYS


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"unit": None}, "slot"),
        ({"slot": np.array([-1, 0, 0, 0, 0, 0])}, "slot"),
        ({"prefix_propensity": np.array([[0.5, 0.5]] * 5 + [[0.0, 0.5]])}, r"propensity\[5, 0\]"),
        ({"joint_propensity": np.full((6, 2), 2.0)}, "joint_propensity"),
        ({"position_marginals": np.zeros((6, 2))}, "position_marginals"),
        ({"stratum": None, "stratum_policies": ()}, "stratum_policies"),
        ({"stratum_policies": (None,)}, "stratum"),
        ({"action_mask": np.array([[0, 1, 1]] * 6)}, r"action\[0\]"),
        ({"action_mask": np.ones((6, 2))}, "action_mask"),
    ],
)
def test_wrong_arrays_are_refused_by_name(changes, message):
    with pytest.raises(DataError, match=message):
        problem(**changes)


def test_a_target_policy_may_exclude_a_logged_list():
    both = np.array([[0.5, 0.0]] * 6)
    assert (problem(prefix_propensity=both).prefix_propensity[:, 1] == 0).all()


def test_policies_give_no_mass_to_unavailable_actions():
    with pytest.raises(DataError, match="action_mask"):
        problem().check_policies()
    problem(action_mask=np.ones((6, 3))).check_policies()


class Masked(Estimator):
    """Declares nothing."""

    def estimate(self, view):
        return Estimate(0.0)


class Masking(Masked):
    """Declares that it respects masks."""

    action_masks = True


def test_estimators_that_do_not_declare_masks_are_unavailable():
    with pytest.raises(UnavailableError, match="mask"):
        refuse_unused(Masked(), problem())
    with pytest.raises(UnavailableError, match="mask"):
        refuse_unused(Masked(), view_of(problem(), Access.SAMPLES))
    refuse_unused(Masked(), problem(action_mask=None))
    refuse_unused(Masking(), problem())
