"""Each check of estimators catches the fault that it is named after, and says what to do."""

import sys
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest

from ope_bench.base.errors import UsageError
from ope_bench.testing import CheckFailed, NotApplicable, estimator_checks
from support.faulty_estimators import (
    BareParameter,
    BatchesInVain,
    BatchesWhatCannotBe,
    BusyConstructor,
    BusyPostInit,
    ChangedParameter,
    DrawsInEstimate,
    FirstRow,
    FitChangesParameter,
    FitNamesBadly,
    FitReturnsNothing,
    ForcesWriting,
    ForgetsParameters,
    GlobalRandom,
    Greedy,
    Infinite,
    LeavesSettings,
    NaNWithoutSupport,
    NegativeError,
    NoDocstring,
    OddMass,
    OnlyGPU,
    ReturnsFloat,
    SeedsNumpy,
    ShortWeights,
    Sound,
    SoundFields,
    Swallows,
    Undeclared,
    Unpicklable,
    Unseeded,
    Writes,
    WrongScale,
)

FAULTS = [
    (NoDocstring, "check_docstring_starts_with_one_line", "has no docstring"),
    (BareParameter, "check_constructor_only_stores_annotated_parameters", "without annotation"),
    (BusyConstructor, "check_constructor_only_stores_annotated_parameters", "also sets limit"),
    (
        BusyPostInit,
        "check_constructor_only_stores_annotated_parameters",
        "has `__post_init__`; constructors only store parameters",
    ),
    (
        ChangedParameter,
        "check_constructor_only_stores_annotated_parameters",
        r"self\.clip is 50\.0, but 100\.0 was given",
    ),
    (ForgetsParameters, "check_clone_and_set_params_copy_parameters", "raises nothing"),
    (OnlyGPU, "check_devices_include_the_cpu", "expected"),
    (BatchesInVain, "check_what_is_batched_is_what_fit_asks_for", "did not request .*Unasked"),
    (
        BatchesWhatCannotBe,
        "check_what_is_batched_is_what_fit_asks_for",
        "no begin and no complete",
    ),
    (
        FitReturnsNothing,
        "check_fit_returns_self_and_sets_names_that_end_in_underscore",
        "return self",
    ),
    (FitNamesBadly, "check_fit_returns_self_and_sets_names_that_end_in_underscore", "sets mean"),
    (
        FitChangesParameter,
        "check_fit_returns_self_and_sets_names_that_end_in_underscore",
        "changes the parameter clip",
    ),
    (Infinite, "check_estimate_is_finite_where_support_is_good", "estimate is inf"),
    (NegativeError, "check_standard_error_and_weights_are_valid", "standard_error is -1"),
    (ShortWeights, "check_standard_error_and_weights_are_valid", "159 weights; expected 160"),
    (Unseeded, "check_same_seed_gives_the_same_estimate", "two runs with the same rng"),
    (DrawsInEstimate, "check_same_seed_gives_the_same_estimate", "second call of estimate"),
    (
        LeavesSettings,
        "check_process_settings_are_unchanged",
        "the recursion limit, NumPy's print options changed and did not change back",
    ),
    (GlobalRandom, "check_global_random_state_is_untouched", "state of random was changed"),
    (SeedsNumpy, "check_global_random_state_is_untouched", "state of numpy.random"),
    (Writes, "check_input_is_not_changed", "read-only; .* copy before writing"),
    (ForcesWriting, "check_input_is_not_changed", "reward changed"),
    (Undeclared, "check_declared_access_suffices", "Access.TARGET_POLICY"),
    (Swallows, "check_declared_access_suffices", "catching the AccessError does not help"),
    (
        Greedy,
        "check_declared_access_is_needed",
        "declares embedding_distribution, logging_policy",
    ),
    (
        WrongScale,
        "check_identical_policies_give_the_logging_average",
        "standard errors apart",
    ),
    (FirstRow, "check_order_of_rows_does_not_matter", "when rows were shuffled"),
    (Unpicklable, "check_fitted_estimator_can_be_pickled", "pickle raised"),
    (
        NaNWithoutSupport,
        "check_missing_support_is_a_violation_or_a_finite_estimate",
        "the estimate is nan; an estimate is a finite number; raise ope_bench.PositivityViolation",
    ),
    (
        OddMass,
        "check_missing_support_is_a_violation_or_a_finite_estimate",
        "unsupported_mass = 60",
    ),
    (ReturnsFloat, "check_estimate_is_finite_where_support_is_good", "returned float"),
    (Swallows, "check_a_trial_ends_ok_and_reports_its_times", "status is error"),
]


def one_check(estimator, name):
    return dict(estimator_checks(estimator))[name]


@pytest.mark.parametrize(
    ("cls", "name", "message"), FAULTS, ids=[f"{c.__name__}-{n}" for c, n, _ in FAULTS]
)
def test_the_check_catches_the_fault(cls, name, message):
    limit, options = sys.getrecursionlimit(), np.get_printoptions()
    with pytest.raises(CheckFailed, match=message):
        one_check(cls(), name)()
    sys.setrecursionlimit(limit)
    np.set_printoptions(**options)


@estimator_checks(Sound(), Sound(clip=2.0), SoundFields())
def test_a_sound_estimator_passes(check):
    check()


@estimator_checks(
    WrongScale(),
    expected_failures={
        "check_identical_policies_give_the_logging_average": "a quarter, on purpose",
        "check_docstring_starts_with_one_line": "it has none of its own",
        "check_docstring_has_formula_assumptions_and_reference": "it has none of its own",
    },
)
def test_declared_failures_are_expected(check):
    check()


SECTIONS = "check_docstring_has_formula_assumptions_and_reference"


class OwnStyle(Sound):
    """Weighs rewards, in the style of another house
    and without a full stop

    Args:
        klip: largest weight
    """


@estimator_checks(OwnStyle())
def test_another_style_of_docstring_passes(check):
    check()


def test_what_a_docstring_lacks_is_advice_to_others_and_a_failure_of_built_ins(monkeypatch):
    def outcomes():
        return {
            name: next(one for one in estimator_checks(OwnStyle()).outcomes() if one.name == name)
            for name in ("check_docstring_starts_with_one_line", SECTIONS)
        }

    given = outcomes()
    assert {one.result for one in given.values()} == {"advice"}
    assert not any(one.bad for one in given.values())
    sections = given[SECTIONS].message
    assert all(word in sections for word in ("formula", "Assumptions", "Fails when", "reference"))
    target = f"{OwnStyle.__module__}:{OwnStyle.__qualname__}"
    built_in = SimpleNamespace(reference="ope-bench:own", target=target)
    known = SimpleNamespace(plugins=lambda kind: [built_in] if kind == "estimator" else [])
    monkeypatch.setattr("ope_bench.testing.checks.registry", lambda: known)
    assert {one.result for one in outcomes().values()} == {"failed"}


def test_a_declared_failure_that_does_not_come_is_a_failure():
    name = "check_devices_include_the_cpu"
    checks = estimator_checks(Sound(), expected_failures={name: "just so"})
    outcome = next(one for one in checks.outcomes() if one.name == name)
    assert outcome.result == "unexpected pass"
    assert outcome.bad
    assert "remove the declaration" in outcome.message


def test_a_class_can_declare_its_failures():
    name = "check_identical_policies_give_the_logging_average"

    class Declares(WrongScale):
        expected_failures: ClassVar = {name: "a quarter, on purpose"}

    outcome = next(one for one in estimator_checks(Declares()).outcomes() if one.name == name)
    assert outcome.result == "expected failure"


def test_declaring_a_check_that_does_not_exist_is_a_usage_error():
    with pytest.raises(UsageError, match="did you mean 'check_devices_include_the_cpu'"):
        estimator_checks(Sound(), expected_failures={"check_devices_include_cpu": "?"})


def test_checks_of_several_estimators_have_different_names():
    names = [name for name, _ in estimator_checks(Sound(), Sound(clip=2.0))]
    assert len(set(names)) == len(names)
    assert names[0].startswith("Sound()-check_")
    assert names[-1].startswith("Sound(clip=2.0)-check_")


def test_what_needs_a_missing_module_is_skipped_with_the_pip_line():
    class Needy(Sound):
        requires = ("no_such_module_here",)

    with pytest.raises(NotApplicable, match="pip install no_such_module_here"):
        one_check(Needy(), "check_estimate_is_finite_where_support_is_good")()


def test_a_class_that_other_processes_cannot_import_is_skipped_with_the_reason():
    class Local(Sound):
        pass

    with pytest.raises(NotApplicable, match="other processes cannot import"):
        one_check(Local(), "check_fresh_process_gives_the_same_estimate")()


def test_the_examined_object_itself_is_never_fitted():
    estimator = Sound()
    for _ in estimator_checks(estimator).outcomes():
        pass
    assert vars(estimator) == {"clip": 100.0}
