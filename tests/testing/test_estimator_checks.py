"""Each check of estimators catches the fault that it is named after, and says what to do."""
# ruff: noqa: NPY002  the global state is what a faulty plugin misuses

import random
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import pytest
from annotated_types import Gt

from ope_bench import Access, Estimate, Estimator, PositivityViolation
from ope_bench.errors import AccessError, UsageError
from ope_bench.testing import CheckFailed, NotApplicable, estimator_checks


class Sound(Estimator):
    """Logged rewards weighted by the ratio of the policies.

        V = mean(w r)

    Assumptions: support. Fails when: there is none.

    Parameters
    ----------
    clip : largest weight.

    References
    ----------
    Truncated importance sampling (Ionides, 2008).
    """

    access = Access.PROPENSITY | Access.TARGET_POLICY

    def __init__(self, clip: Annotated[float, Gt(0)] = 100.0) -> None:
        self.clip = clip

    def estimate(self, view):
        target = view.target_policy.probability(view.context, view.action)
        weights = np.minimum(target / view.propensity, self.clip)
        return Estimate(float((weights * view.reward).mean()), None, weights)


class NoDocstring(Sound):
    pass


NoDocstring.__doc__ = None


class BareParameter(Sound):
    def __init__(self, clip=100.0):
        self.clip = clip


class BusyConstructor(Sound):
    def __init__(self, clip: float = 100.0) -> None:
        self.clip = clip
        self.limit = 2 * clip


class ChangedParameter(Sound):
    def __init__(self, clip: float = 100.0) -> None:
        self.clip = min(clip, 50.0)


class ForgetsParameters(Sound):
    def set_params(self, **params):
        return self


class OnlyGPU(Sound):
    devices = ("cuda",)


@dataclass(frozen=True)
class Unasked:
    """A shared fit that nobody asks for."""

    def fit(self, view, *, rng, device):
        return 0.0

    def begin(self, view, *, rng, device):
        return 0.0

    def complete(self, begun, *, device):
        return begun


class BatchesInVain(Sound):
    @property
    def batched(self):
        return (Unasked(),)


class BatchesWhatCannotBe(Sound):
    @property
    def batched(self):
        return ("mean",)


class FitReturnsNothing(Sound):
    def fit(self, view, *, rng, device):
        self.mean_ = 1.0


class FitNamesBadly(Sound):
    def fit(self, view, *, rng, device):
        self.mean = 1.0
        return self


class FitChangesParameter(Sound):
    def fit(self, view, *, rng, device):
        self.clip = 3.0
        return self


class Infinite(Sound):
    def estimate(self, view):
        return Estimate(np.inf)


class NegativeError(Sound):
    def estimate(self, view):
        return Estimate(super().estimate(view).value, standard_error=-1.0)


class ShortWeights(Sound):
    def estimate(self, view):
        found = super().estimate(view)
        return Estimate(found.value, None, found.weights[:-1])


class Unseeded(Sound):
    def estimate(self, view):
        noise = np.random.default_rng().normal(scale=1e-6)
        return Estimate(super().estimate(view).value + noise)


class DrawsInEstimate(Sound):
    def fit(self, view, *, rng, device):
        self.rng_ = rng
        return self

    def estimate(self, view):
        return Estimate(super().estimate(view).value + 1e-3 * self.rng_.random())


class GlobalRandom(Sound):
    def estimate(self, view):
        random.random()
        return super().estimate(view)


class SeedsNumpy(Sound):
    def fit(self, view, *, rng, device):
        np.random.seed(0)
        return self


class Writes(Sound):
    def estimate(self, view):
        view.reward[0] = 0.0
        return super().estimate(view)


class ForcesWriting(Sound):
    def estimate(self, view):
        found = super().estimate(view)
        base = view.reward
        while base.base is not None:
            base = base.base
        base.flags.writeable = True
        base[0] += 1.0
        return found


class Undeclared(Sound):
    access = Access.PROPENSITY


class Swallows(Sound):
    access = Access.PROPENSITY

    def estimate(self, view):
        try:
            return super().estimate(view)
        except AccessError:
            return Estimate(float(view.reward.mean()))


class Greedy(Sound):
    access = Access.LOGGING_POLICY | Access.TARGET_POLICY | Access.EMBEDDING_DISTRIBUTION


class WrongScale(Sound):
    def estimate(self, view):
        return Estimate(super().estimate(view).value / 4)


class FirstRow(Sound):
    def estimate(self, view):
        return Estimate(super().estimate(view).value + 0.1 * float(view.reward[0]))


class Unpicklable(Sound):
    def fit(self, view, *, rng, device):
        self.weight_ = lambda ratio: ratio
        return self


class NaNWithoutSupport(Sound):
    def estimate(self, view):
        value = super().estimate(view).value
        taken = np.isin(view.target_action, view.action)
        return Estimate(value if taken.all() else np.nan)


class OddMass(Sound):
    def estimate(self, view):
        if not np.isin(view.target_action, view.action).all():
            raise PositivityViolation("missing", unsupported_mass=60.0)
        return super().estimate(view)


class ReturnsFloat(Sound):
    def estimate(self, view):
        return super().estimate(view).value


FAULTS = [
    (NoDocstring, "check_docstring_starts_with_one_line", "has no docstring"),
    (
        NoDocstring,
        "check_docstring_has_formula_assumptions_and_reference",
        "lacks a formula .* reference",
    ),
    (BareParameter, "check_constructor_only_stores_annotated_parameters", "without annotation"),
    (BusyConstructor, "check_constructor_only_stores_annotated_parameters", "also sets limit"),
    (
        ChangedParameter,
        "check_constructor_only_stores_annotated_parameters",
        r"self\.clip is 50\.0, but 100\.0 was given",
    ),
    (ForgetsParameters, "check_clone_and_set_params_copy_parameters", "raises nothing"),
    (OnlyGPU, "check_devices_include_the_cpu", "expected"),
    (BatchesInVain, "check_what_is_batched_is_what_fit_asks_for", "did not ask .* Unasked"),
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
    (GlobalRandom, "check_global_random_state_is_untouched", "state of random was changed"),
    (SeedsNumpy, "check_global_random_state_is_untouched", "state of numpy.random"),
    (Writes, "check_input_is_not_changed", "read-only; .* copy before writing"),
    (ForcesWriting, "check_input_is_not_changed", "reward changed"),
    (Undeclared, "check_declared_access_suffices", "Access.TARGET_POLICY"),
    (Swallows, "check_declared_access_suffices", "swallowing the AccessError does not help"),
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
        "the estimate is nan; raise PositivityViolation",
    ),
    (
        OddMass,
        "check_missing_support_is_a_violation_or_a_finite_estimate",
        "unsupported_mass is 60",
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
    with pytest.raises(CheckFailed, match=message):
        one_check(cls(), name)()


@estimator_checks(Sound(), Sound(clip=2.0))
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


def test_a_declared_failure_that_does_not_come_is_a_failure():
    name = "check_devices_include_the_cpu"
    checks = estimator_checks(Sound(), expected_failures={name: "just so"})
    [outcome] = [one for one in checks.outcomes() if one.name == name]
    assert outcome.result == "unexpected pass"
    assert outcome.bad
    assert "remove the declaration" in outcome.message


def test_a_class_can_declare_its_failures():
    class Declares(WrongScale):
        expected_failures: ClassVar = {
            "check_identical_policies_give_the_logging_average": "a quarter, on purpose"
        }

    results = {one.name: one.result for one in estimator_checks(Declares()).outcomes()}
    assert results["check_identical_policies_give_the_logging_average"] == "expected failure"


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
