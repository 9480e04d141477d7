"""Edges of policy selection and of the bootstrap's quantiles, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from ope_bench.statistics.error_distribution import _quantile
from ope_bench.statistics.ranks import selection


@pytest.mark.parametrize("scale", [1e-6, 0.5, 1.0, 50.0])
def test_relative_regret_does_not_depend_on_the_unit_of_rewards(scale: float) -> None:
    value = scale * np.array([0.0, 0.25, 1.0])
    chosen = selection(np.array([0.0, 2.0, 1.0]), value)
    assert chosen.regret == pytest.approx(0.75 * scale)
    assert chosen.relative_regret == pytest.approx(0.75)


def test_policies_of_equal_value_have_no_relative_regret() -> None:
    assert selection(np.array([0.0, 1.0]), np.ones(2)).relative_regret is None


def test_an_estimate_or_value_equal_to_the_reference_is_no_better() -> None:
    chosen = selection(np.array([1.0, 1.0, 2.0]), np.array([1.0, 2.0, 1.0]), reference=1.0)
    # Of two policies no better than the reference one is adopted; the better one is rejected.
    assert (chosen.type_one, chosen.type_two) == (0.5, 1.0)


@pytest.mark.parametrize("policies", range(2, 40))
def test_equal_rankings_correlate_by_exactly_one(policies: int) -> None:
    # Without rounding, the last bit of both depends on the number of policies.
    chosen = selection(np.arange(policies, dtype=float), np.arange(policies, dtype=float))
    assert (chosen.spearman, chosen.kendall) == (1.0, 1.0)


@pytest.mark.parametrize(("share", "order"), [(0.025, 250), (0.975, 9_750), (0.5, 5_000)])
def test_a_quantile_is_the_order_statistic_nearest_to_its_share(share: float, order: int) -> None:
    # Of 9,999 ordered values, number k is the quantile k / 10,000.
    ordered = np.arange(1, 10_000, dtype=float)[None, :]
    assert _quantile(ordered, share)[0] == order


def test_a_single_policy_has_no_correlation() -> None:
    found = selection(np.array([2.0]), np.array([3.0]))
    assert (found.spearman, found.kendall, found.regret) == (None, None, 0.0)


def test_a_policy_without_an_estimate_is_never_chosen_and_counts_as_rejected() -> None:
    value = np.array([3.0, 1.0, 2.0])
    chosen = selection(np.array([np.nan, 2.0, 1.0]), value, reference=1.5)
    assert (chosen.regret, chosen.relative_regret) == (2.0, 1.0)
    assert (chosen.type_one, chosen.type_two) == (1.0, 1.0)
    assert (chosen.spearman, chosen.kendall) == (-1.0, -1.0)
    none = selection(np.full(3, np.nan), value, reference=1.5)
    assert (none.regret, none.type_one, none.type_two, none.spearman) == (None,) * 4


@pytest.mark.parametrize(("reference", "errors"), [(0.5, (None, 0.5)), (3.5, (0.0, None))])
def test_errors_of_a_kind_that_cannot_occur_are_unknown(
    reference: float, errors: tuple[float | None, float | None]
) -> None:
    chosen = selection(np.array([0.0, 3.0]), np.array([1.0, 3.0]), reference=reference)
    assert (chosen.type_one, chosen.type_two) == errors


def test_the_mean_of_those_that_tie_for_the_best_counts() -> None:
    chosen = selection(np.array([2.0, 2.0, 1.0]), np.array([1.0, 3.0, 5.0]))
    assert chosen.regret == 3.0
