"""Problem, Truth and Estimate check what they are given, once, at the door."""

import dataclasses
import math

import numpy as np
import pytest

from ope_bench import Column, DiscretePolicy, Estimate, Problem, Schema, Truth
from ope_bench.base.errors import DataError, PositivityViolation, UnavailableError
from ope_bench.contracts.arrays import CHUNK_ENTRIES, row_chunks, validate_array

NO_SAMPLE = dict.fromkeys(("target_context", "target_action", "target_embedding"))


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
        ({"unit": [0, 0, 1]}, r"unit has shape \(3,\); expected \(4,\)"),
        ({"unit": [0, 0.5, 1, 1]}, "unit holds fractions; expected integers"),
        ({"unit": list("abcd")}, "unit has dtype <U1; expected numbers"),
        ({"unit": [0, 0, 1, 2**63 - 1]}, "unit has values in"),
        ({"unit": [0, 0, 1, 1], "target_unit": [0, 1]}, r"target_unit .* expected \(3,\)"),
        ({"target_unit": [0, 0, 1]}, "target_unit is given without unit"),
        ({"row_weight": [1, 1, 0, 1]}, r"row_weight\[2\]"),
        ({"predicted_reward": np.zeros((4, 9))}, "predicted_reward"),
        ({"target_action": None}, "target_action is None; give all of target_context, target_act"),
        ({**NO_SAMPLE, "shared_contexts": True}, "shared_contexts is given, but there is no tar"),
        (
            {**NO_SAMPLE, "unit": [0, 0, 1, 1], "target_unit": []},
            "target_unit is given, but there is no target sample",
        ),
        (
            {
                "shared_contexts": True,
                "target_context": np.zeros((4, 2)),
                "target_action": [0, 0, 1, 1],
                "target_embedding": np.zeros((4, 1)),
                "unit": [0, 0, 1, 1],
                "target_unit": [0, 1, 1, 0],
            },
            "shared_contexts is set, but unit and target_unit differ",
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


def test_a_target_sample_is_optional():
    made = problem(**NO_SAMPLE)
    assert not made.has_target_sample
    with pytest.raises(UnavailableError, match="no target sample"):
        _ = made.target_sample
    assert [array.shape for array in problem().target_sample] == [(3, 2), (3,), (3, 1)]


def test_an_unknown_truth_leaves_the_fields_of_a_record_empty():
    assert set(Truth.unknown().facts.values()) == {None}
    assert Truth(1.0, 0.0, 2.0).facts == {
        "truth_expected": 1.0,
        "truth_expected_se": 0.0,
        "truth_empirical": 2.0,
    }


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


@pytest.mark.parametrize("name", ["weights", "target_weights"])
@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_weights_of_a_finite_estimate_are_finite(name, wrong):
    given = {name: np.array([1.0, wrong, 2.0])}
    with pytest.raises(DataError, match=rf"{name}\[1\] is {wrong}, though the value is finite"):
        Estimate(0.5, **given)
    # An estimate that is no number has a status of its own.
    assert np.isnan(Estimate(math.nan, **given).value)
    assert Estimate(0.5, **{name: np.array([-1.0, 0.0])}).value == 0.5


def test_weights_are_of_actions_or_embeddings():
    assert Estimate(0.0, weight_space="embedding").weight_space == "embedding"
    with pytest.raises(DataError, match="'nonsense'; expected 'action' or 'embedding'"):
        Estimate(0.0, weight_space="nonsense")


@pytest.mark.parametrize("mass", [-3, 1.01, math.nan, math.inf, -math.inf])
def test_an_unsupported_mass_is_a_share(mass):
    with pytest.raises(DataError, match="is no share: expected 0 to 1"):
        PositivityViolation("no support", unsupported_mass=mass)


@pytest.mark.parametrize("wrong", ["many", np.array([0.5]), True, [0.5], 1j, b"1"])
@pytest.mark.parametrize("name", ["unsupported_mass", "fallback"])
def test_what_a_violation_tells_are_numbers(name, wrong):
    with pytest.raises(
        DataError, match=f"{name} of a PositivityViolation is .*; expected a number"
    ):
        PositivityViolation("no support", **{name: wrong})


@pytest.mark.parametrize("mass", [None, 0, 1, 0.25, np.float32(0.5), np.array(0.5), 1 + 1e-12])
def test_a_share_of_any_numeric_type_is_kept(mass):
    assert PositivityViolation("no support", unsupported_mass=mass).unsupported_mass == mass


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
        validate_array("p", [-1.0], (1,), low=0)


@pytest.mark.parametrize(("rows", "width"), [(0, 5), (1, 1), (10, CHUNK_ENTRIES), (7, 10**9)])
def test_row_chunks_cover_every_row_once_within_the_limit(rows, width):
    chunks = row_chunks(rows, width)
    covered = [row for chunk in chunks for row in range(chunk.start, chunk.stop)]
    assert covered == list(range(rows))
    for chunk in chunks:
        # One row is the least there can be, however wide it is.
        assert (chunk.stop - chunk.start) * width <= max(CHUNK_ENTRIES, width)


def test_diagnostics_are_bounded() -> None:
    Estimate(0.0, diagnostics={f"k{number}": 0.5 for number in range(2_000)})
    for large in ({"a": "x" * 70_000}, {f"k{number}": 0.5 for number in range(3_000)}):
        with pytest.raises(DataError, match=r"diagnostics have [78]\d,\d{3} characters; expected"):
            Estimate(0.0, diagnostics=large)


class Table(DiscretePolicy):
    """The same probabilities in every context."""

    def __init__(self, *probabilities):
        super().__init__(len(probabilities))
        self.probabilities = np.array(probabilities)

    def table(self, context):
        return np.tile(self.probabilities, (len(context), 1))


def with_policies(**changes):
    given = {
        "context": np.zeros((5, 1)),
        "action": np.zeros(5, int),
        "embedding": np.zeros((5, 1)),
        "reward": np.zeros(5),
        "logging_policy": Table(0.5, 0.5),
        "target_policy": Table(0.2, 0.8),
    }
    return Problem(n_actions=2, **NO_SAMPLE, **(given | changes))


def test_policies_that_are_distributions_pass():
    with_policies(propensity=np.full(5, 0.5)).check_policies()
    with_policies(propensity=np.ones(5), target_policy=None).check_policies()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"target_policy": Table(0.2, 0.9)}, r"target_policy at context\[0\].* sum to 1.1"),
        ({"logging_policy": Table(1.2, -0.2)}, r"logging_policy .* smallest is -0.2"),
        ({"target_policy": Table(0.2, np.nan)}, r"target_policy at context\[0\]"),
        ({"target_policy": Table(1.0)}, r"target_policy.* shape \(5, 1\); expected \(5, 2\)"),
        ({"propensity": np.array([0.5, 0.5, 3.0, 0.5, 0.5])}, r"propensity\[2\] is 3"),
    ],
)
def test_policies_that_are_no_distributions_are_refused(changes, message):
    with pytest.raises(DataError, match=message):
        with_policies(**changes).check_policies()


class Rows(Table):
    """A policy whose probabilities are wrong in one row, told by its context."""

    def table(self, context):
        return super().table(context) + 0.5 * (context == 4321)


class WithoutTable:
    """Twice a distribution, or one, by what a policy must have alone."""

    def __init__(self, total):
        self.total = total

    def probability(self, context, action):
        return self.total * np.array([0.25, 0.75])[action]

    def sample(self, context, rng):
        return np.zeros(len(context), int)

    def expect(self, context, f):
        return np.zeros(len(context))


def long_problem(n=9000, **changes):
    context = np.arange(float(n))[:, None]
    arrays = {"context": context, "embedding": context, "reward": np.zeros(n)}
    return with_policies(action=np.zeros(n, int), **arrays, **changes)


@pytest.mark.parametrize("name", ["logging_policy", "target_policy"])
def test_every_row_is_looked_at_unless_fewer_are_asked_for(name):
    problem = long_problem(**{name: Rows(0.5, 0.5)})
    with pytest.raises(DataError, match=rf"{name} at context\[4321\].* sum to 2"):
        problem.check_policies()
    problem.check_policies(16)


def test_the_target_policy_is_checked_at_its_own_contexts_too():
    rows = {"target_action": np.zeros(3, int), "target_embedding": np.zeros((3, 1))}
    problem = dataclasses.replace(
        long_problem(2000, target_policy=Rows(0.5, 0.5)),
        target_context=np.array([[1.0], [4321.0], [3.0]]),
        **rows,
    )
    with pytest.raises(DataError, match=r"target_policy at target_context\[1\].* sum to 2"):
        problem.check_policies()


def test_the_policies_of_loggers_are_checked_at_every_row():
    problem = long_problem(logging_policy=None)
    loggers = (Table(0.5, 0.5), Rows(0.5, 0.5))
    problem = dataclasses.replace(problem, stratum=np.arange(9000) % 2, stratum_policies=loggers)
    with pytest.raises(DataError, match=r"stratum_policies\[1\] at context\[4321\]"):
        problem.check_policies(16)


def test_a_policy_without_a_table_is_asked_for_each_action():
    long_problem(target_policy=WithoutTable(1.0)).check_policies()
    with pytest.raises(DataError, match=r"target_policy at context\[0\].* sum to 2"):
        long_problem(target_policy=WithoutTable(2.0)).check_policies()
