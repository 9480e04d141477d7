"""Diagnostics in tables say what the mappings say."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ope_bench import outcomes
from ope_bench.outcomes import DiagnosticColumn

MAPPINGS: list[dict[str, Any]] = [
    {"a": 1.5, "b": 2.0},
    {"b": 3.0, "a": 1.0},
    {},
    {"a": 4.0, "b": "word"},
    {"c": True, "d": 3, "e": None, "f": math.inf},
    {"a": 5.0, "b": 10**400},
]

VALUES = st.one_of(st.floats(), st.integers(-3, 3), st.booleans(), st.none(), st.text(max_size=2))
COLUMNS = st.lists(st.dictionaries(st.sampled_from("abcd"), VALUES), max_size=12)


def finite_numbers(mappings: list[dict[str, Any]]) -> dict[str, list[float]]:
    """One mapping after another."""
    found: dict[str, list[float]] = {}
    for one in mappings:
        for name, value in one.items():
            if isinstance(value, int | float) and abs(value) <= sys.float_info.max:
                found.setdefault(name, []).append(float(value))
    return found


@given(COLUMNS)
def test_names_and_numbers_are_those_of_a_loop_over_the_mappings(mappings):
    column = DiagnosticColumn.of(mappings)
    told = {name: numbers.tolist() for name, numbers in column.finite_numbers().items()}
    expected = finite_numbers(mappings)
    assert list(told) == list(expected)
    assert told == expected
    assert set(column.names) == {name for one in mappings for name in one}
    assert repr(column.tolist()) == repr(mappings)
    assert repr(column.values("a")) == repr([one.get("a") for one in mappings])


def test_chosen_and_joined_trials_keep_their_mappings(monkeypatch: pytest.MonkeyPatch) -> None:
    column = DiagnosticColumn.of(MAPPINGS)
    assert [list(one) for one in column] == [list(one) for one in MAPPINGS]
    backward = column[np.arange(len(MAPPINGS))[::-1]]
    assert backward.tolist() == MAPPINGS[::-1]
    joined = DiagnosticColumn.joined([backward[1:3], column[:0], column])
    assert joined.tolist() == [*MAPPINGS[::-1][1:3], *MAPPINGS]
    assert joined.finite_numbers()["a"].tolist() == [4.0, 1.5, 1.0, 4.0, 5.0]
    monkeypatch.setattr(outcomes, "AT_ONCE", 4)
    assert list(joined) == joined.tolist()


def test_numbers_are_no_objects_and_words_are_one() -> None:
    column = DiagnosticColumn.of([{"a": 1.0, "word": "".join(["se", "lf"])} for _ in range(3)])
    (table,) = column.tables
    assert table["a"].dtype == np.float64
    assert len({id(word) for word in column.values("word")}) == 1


def test_trials_without_diagnostics_have_empty_mappings() -> None:
    assert DiagnosticColumn.of([{}, {}]).tolist() == [{}, {}]
    assert DiagnosticColumn.of([]).tolist() == []
    assert DiagnosticColumn.of([{}, {}]).finite_numbers() == {}


def test_only_some_diagnostics_are_kept() -> None:
    column = DiagnosticColumn.of([{"a": 1.0, "b": 2.0}, {"b": 3.0}, {"a": 4.0}, {}])
    assert column.only({"a", "c"}).tolist() == [{"a": 1.0}, {}, {"a": 4.0}, {}]
    assert column.only(()).names == []
