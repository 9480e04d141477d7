"""Rows that list which actions were available: sums, refusals, and full masks."""

from dataclasses import replace

import numpy as np
import pytest

from ope_bench import Access, UnavailableError, View
from ope_bench.contracts.plugins import refuse_unused
from ope_bench.contracts.policies import Tabular
from ope_bench.contracts.random import DataSeed
from ope_bench.contracts.view import FitCache
from ope_bench.plugins.registry import registry
from support import golden_log as golden
from support import tiny_lists
from support.tiny_worlds import code

MASK = np.array([[1, 0, 1]] * 3 + [[1, 1, 0]] * 3, dtype=bool)
LOGGING = np.array([[0.6, 0.0, 0.4], [0.3, 0.7, 0.0]])
TARGET = np.array([[0.25, 0.0, 0.75], [0.5, 0.5, 0.0]])
PREDICTED = np.where(MASK, 0.4, 1e6)
"""Predictions that are absurd where an action was not available."""

GIVEN = ("dm", "dr", "sndr", "switch", "switch-dr", "dr-os", "dr-ps", "sg-dr", "cab")


def masked():
    """A log in which each context has two of three actions."""
    action = np.array([0, 2, 2, 0, 1, 1])
    log = golden.problem(action=action)
    return replace(
        log,
        action_mask=MASK,
        predicted_reward=PREDICTED,
        propensity=LOGGING[golden.CONTEXT, action],
        logging_policy=Tabular(LOGGING, code),
        target_policy=Tabular(TARGET, code),
    )


def made(name, **params):
    return registry().find("estimator", f"ope-bench:{name}").cls(**params)


@pytest.mark.parametrize("name", GIVEN)
def test_predictions_of_unavailable_actions_enter_no_sum(name):
    masked().check_policies()
    estimator = made(name, regressor="given")
    refuse_unused(estimator, masked())
    found = tiny_lists.run(estimator, masked())
    assert abs(found.value) < 3
    if name == "dm":
        assert found.value == pytest.approx(0.4)


def test_some_declare_masks_and_those_with_classifiers_of_actions_refuse():
    for name in ("ipw", "ipws", "dm", "dr", "sips", "balanced-ipw", "logging-average"):
        refuse_unused(made(name), masked())
    refusing = [made(name) for name in ("dm-star-paper", "ipw-star", "pc-ipw", "mips", "edr")]
    for estimator in (*refusing, made("ipw", propensity="estimated")):
        with pytest.raises(UnavailableError, match="mask"):
            refuse_unused(estimator, masked())


@pytest.mark.parametrize("name", ["ipw", "ipws", "dm", "dr", "sndr", "cab", "tmle", "select"])
def test_full_masks_give_the_bits_without_them(name):
    full = replace(golden.problem(), action_mask=np.ones((6, 3)))
    estimator = made(name)
    with_mask, without = (tiny_lists.run(estimator, log) for log in (full, golden.problem()))
    assert with_mask.value == without.value
    assert with_mask.standard_error == without.standard_error


def test_masks_have_an_access_flag_and_are_withheld_without_it():
    view = View(masked(), Access.ACTION_MASK, seed=DataSeed("masks", 0, 0), fit_cache=FitCache())
    assert view.has_action_mask
    np.testing.assert_array_equal(view.action_mask, MASK)
