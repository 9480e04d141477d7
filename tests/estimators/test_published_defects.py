"""Published formulas that are wrong fail their identity; the package's estimators satisfy it."""

from __future__ import annotations

import numpy as np
import pytest

from ope_estimators.actions.direct.dm_paper import DMPaper
from ope_estimators.actions.doubly_robust.cab import CAB
from ope_estimators.actions.weighting.beta_ipw import BetaIPW
from ope_estimators.tuning.slope import slope as right_slope
from support import golden_log as golden
from support import published_defects as published

EVERY = pytest.mark.parametrize("defect", published.DEFECTS, ids=lambda one: one.what[:40])


@EVERY
def test_the_formula_fails_its_identity(defect):
    right, wrong = defect.right(), defect.wrong()
    assert np.isfinite(right)
    assert abs(wrong - right) > 0.02 * abs(right)
    assert (defect.source, defect.identity, defect.shown) != ("", "", "")


def test_the_value_and_the_right_forms_are_those_of_the_golden_log():
    assert pytest.approx(0.48) == published.VALUE
    for cut in (0.5, 2.0, 100.0):
        assert published.cab(cut, swapped=False) == pytest.approx(published.VALUE)
    assert published.mean(published.P0 * published.W) == pytest.approx(1.0)
    kernels = np.exp(-0.5 * np.zeros((3, 3)))
    assert published.mean(published.P0 * published.W * (published.P1 @ kernels)) == pytest.approx(
        1
    )


def test_the_printed_direct_method_is_the_one_of_its_id():
    """On the golden log, with its rows in place of the expectation."""
    x, a = golden.CONTEXT, golden.ACTION
    rows = (golden.TARGET[x, a] * golden.REWARD_MODEL[x, a]).mean()
    assert golden.run(DMPaper()).value == pytest.approx(rows)
    assert rows != pytest.approx(0.48)


def test_cab_with_min_and_max_exchanged_is_not_ours():
    """The golden log's CAB at 2 is .945; each row with the greater of w and 2 is not."""
    x, a, r = golden.CONTEXT, golden.ACTION, golden.REWARD
    w = (golden.TARGET / golden.LOGGING)[x, a]
    weights = golden.TARGET / golden.LOGGING
    model = golden.TARGET * golden.REWARD_MODEL * np.maximum(0.0, 1.0 - 2.0 / weights)
    blended = model.sum(axis=1)[x]
    assert (blended + np.minimum(w, 2.0) * r).mean() == pytest.approx(0.945)
    assert golden.run(CAB(threshold=2.0)).value == pytest.approx(0.945)
    assert (blended + np.maximum(w, 2.0) * r).mean() > 1.5


def test_the_fallback_of_beta_ipw_is_ours():
    from dataclasses import replace

    from ope_bench.contracts.policies import Tabular
    from support import tiny_worlds as tiny

    problem = golden.problem()
    keep = {name: getattr(problem, name)[:3] for name in ("context", "action", "embedding")}
    problem = replace(
        problem,
        **keep,
        reward=np.array([1.0, 0.0, 1.0]),
        propensity=golden.TARGET[golden.CONTEXT, golden.ACTION][:3] * 2.0,
        target_policy=Tabular(golden.TARGET, tiny.code),
    )
    assert tiny.run(BetaIPW(), problem).value == pytest.approx(published.beta_ipw(fallback=True))
    assert published.beta_ipw(fallback=False) < -1e9


def test_our_ladder_is_the_right_one():
    values, widths = np.array([0.0, 5.0]), np.array([1.0, 0.1])
    assert values[right_slope(values, widths)] == published.slope(reversed_ladder=False)
