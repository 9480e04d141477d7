"""Problem, Truth and Estimate check what they are given, once, at the door."""

import dataclasses
import math

import numpy as np
import pytest

from ope_bench import Column, Estimate, Problem, Schema, Truth
from ope_bench.arrays import CHUNK_ENTRIES, checked, row_chunks
from ope_bench.errors import DataError


def problem(**changes):
    given = {
        "context": np.zeros((4, 2)),
        "action": [0, 1, 2, 1],
        "embedding": np.zeros((4, 1)),
        "reward": [1.0, 0.0, 1.0, 0.0],
        "target_context": np.zeros((3, 2)),
        "target_action": [0, 0, 1],
        "target_embedding": np.zeros((3, 1)),
        "n_actions": 3,
    }
    return Problem(**(given | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reward": []}, r"reward has shape \(0,\); expected \(n,\) with at least one row"),
        ({"reward": np.zeros((4, 1))}, r"reward has shape \(4, 1\)"),
        ({"target_action": []}, r"target_action has shape \(0,\)"),
        ({"context": np.zeros((5, 2))}, r"context has shape \(5, 2\); expected \(4, d_context\)"),
        ({"context": np.zeros(4)}, r"context has shape \(4,\); expected \(4, d_context\)"),
        ({"target_context": np.zeros((3, 1))}, r"target_context has shape \(3, 1\).*\(3, 2\)"),
        ({"embedding": np.zeros((3, 1))}, r"embedding has shape \(3, 1\)"),
        ({"target_embedding": np.zeros((3, 2))}, r"target_embedding .* expected \(3, 1\)"),
        ({"action": [0, 1, 3, 1]}, r"action has values in \[0, 3\]; expected \[0, 2\]"),
        ({"action": [0, 1, -1, 1]}, r"action has values in \[-1, 1\]"),
        ({"action": [0, 1, 0.5, 1]}, "action holds fractions; expected integers"),
        ({"target_action": [0, 9, 1]}, "target_action has values"),
        ({"reward": [1.0, np.nan, 1.0, 0.0]}, r"reward\[1\] is nan; expected finite values"),
        ({"context": np.full((4, 2), np.inf)}, r"context\[0, 0\] is inf"),
        ({"reward": list("abcd")}, "reward has dtype <U1; expected numbers"),
        ({"propensity": [0.5, 0.5, 0.0, 0.5]}, r"propensity\[2\] is 0, but that action was"),
        ({"propensity": [0.5, 0.5, -0.1, 0.5]}, r"propensity has values in \[-0.1, 0.5\]"),
        ({"action_embedding": np.zeros((2, 1))}, r"action_embedding .* expected \(3, 1\)"),
        ({"schema": Schema.continuous(3, 1)}, "schema names 3 context columns; the array has 2"),
        ({"schema": Schema.continuous(2, 4)}, "schema names 4 embedding columns; .* has 1"),
        (
            {"shared_contexts": True, "target_context": np.ones((3, 2))},
            "shared_contexts is set, but context and target_context differ",
        ),
    ],
)
def test_the_door_says_what_is_wrong(changes, message):
    with pytest.raises(DataError, match=message):
        problem(**changes)


def test_arrays_become_read_only_without_freezing_the_owners():
    mine = np.zeros((4, 2))
    made = problem(context=mine)
    with pytest.raises(ValueError, match="read-only"):
        made.context[0, 0] = 1.0
    mine[0, 0] = 7.0
    assert mine.flags.writeable


def test_arrays_are_converted_to_one_kind():
    column_major = np.zeros((4, 2), dtype=np.float32, order="F")
    made = problem(context=column_major, action=[0.0, 1.0, 2.0, 1])
    assert made.context.dtype == np.float64
    assert made.context.flags.c_contiguous
    assert made.action.dtype == np.int64


def test_continuous_actions_stay_floats():
    made = problem(n_actions=None, action=[0.1, 0.2, 0.3, 0.4], target_action=[1.5, 0, 0])
    assert made.action.dtype == np.float64


def test_a_missing_schema_means_continuous_columns():
    assert problem().schema == Schema.continuous(2, 1)


def test_a_categorical_column_needs_its_categories():
    with pytest.raises(DataError, match="needs its categories"):
        Column("categorical")


@pytest.mark.parametrize("name", ["expected", "expected_se", "empirical"])
def test_the_truth_is_finite(name):
    with pytest.raises(DataError, match=f"truth: {name} is nan"):
        dataclasses.replace(Truth(0.0, 0.0, 0.0), **{name: math.nan})


@pytest.mark.parametrize("value", [np.float32(1.5), np.array(1.5), 1.5])
def test_an_estimate_is_one_plain_number(value):
    made = Estimate(value, standard_error=value)
    assert type(made.value) is float
    assert made.value == made.standard_error == 1.5


@pytest.mark.parametrize("value", [True, "1.5", np.array([1.5]), 1j, None, [1.5]])
def test_anything_else_is_refused(value):
    with pytest.raises(DataError, match="expected one real number"):
        Estimate(value)


def test_weights_are_one_a_row():
    with pytest.raises(DataError, match=r"weights has shape \(2, 2\)"):
        Estimate(0.0, weights=np.ones((2, 2)))


def test_diagnostics_are_plain_numbers_and_words():
    made = Estimate(
        0.0, diagnostics={"a": np.float64(1), "b": np.nan, "c": np.array(3), "d": "word"}
    )
    assert made.diagnostics == {"a": 1.0, "b": None, "c": 3, "d": "word"}
    assert type(made.diagnostics["c"]) is int
    with pytest.raises(DataError, match=r"diagnostics\['e'\] is list"):
        Estimate(0.0, diagnostics={"e": [1]})


def test_what_crosses_boundaries_is_frozen():
    for made in (problem(), Truth(0.0, 0.0, 0.0), Estimate(0.0), Schema.continuous(1, 1)):
        field = dataclasses.fields(made)[0].name
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(made, field, None)


def test_bounds_are_shown_with_infinities():
    with pytest.raises(DataError, match=r"expected \[0, inf\]"):
        checked("p", [-1.0], (1,), low=0)


@pytest.mark.parametrize(("rows", "width"), [(0, 5), (1, 1), (10, CHUNK_ENTRIES), (7, 10**9)])
def test_row_chunks_cover_every_row_once_within_the_limit(rows, width):
    chunks = row_chunks(rows, width)
    covered = [row for chunk in chunks for row in range(chunk.start, chunk.stop)]
    assert covered == list(range(rows))
    for chunk in chunks:
        # One row is the least there can be, however wide it is.
        assert (chunk.stop - chunk.start) * width <= max(CHUNK_ENTRIES, width)
