"""Contexts that know their rows of the log."""

from __future__ import annotations

import numpy as np
import pytest

from ope_bench.base.errors import UnavailableError
from ope_bench.logs.policies import ContextGroups, LoggedContext, rows_of

PLAIN = np.arange(12.0).reshape(6, 2)


@pytest.mark.parametrize(
    "key",
    [
        slice(1, 4),
        np.array([5, 0, 5]),
        PLAIN[:, 0] > 4,
        [2, 3],
        slice(None, None, -1),
    ],
    ids=["slice", "integers", "mask", "list", "reversed"],
)
def test_a_selection_of_rows_knows_its_rows(key):
    selected = LoggedContext.of(PLAIN)[key]
    assert np.array_equal(selected, PLAIN[key])
    assert np.array_equal(PLAIN[rows_of(selected)], selected)
    again = selected[1:]
    assert np.array_equal(PLAIN[rows_of(again)], again)


def test_anything_else_is_an_ordinary_array():
    context = LoggedContext.of(PLAIN)
    for other in (
        context + 1,
        context[:, 0],
        context[2],
        np.concatenate([context, context]),
        np.repeat(context, 2, axis=0),
        np.unique(context, axis=0),
        context.copy(),
        np.asarray(context),
    ):
        assert rows_of(other) is None
    assert type(context.mean()) is np.float64
    assert type(context + 1) is np.ndarray


def test_rows_of_equal_context_are_one_group():
    context = np.array([[1.0, 0.0], [2.0, 0.0], [1.0, -0.0]])
    groups = ContextGroups(context)
    assert groups.n == 2
    assert groups.group[0] == groups.group[2] != groups.group[1]
    assert np.array_equal(groups(context[[1, 0]]), groups.group[[1, 0]])
    with pytest.raises(UnavailableError, match="log's contexts only"):
        groups(np.array([[9.0, 9.0]]))
