"""Conformance checks of estimators, each a function named by a sentence."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ope_bench.base.errors import PositivityViolation, UnavailableError
from ope_bench.contracts.data import Problem
from ope_bench.contracts.plugins import Estimate, Estimator
from ope_bench.contracts.random import DataSeed
from ope_bench.contracts.view import FitCache, View, nuisance_key
from ope_bench.plugins.requirements import class_name, explain, import_all
from ope_bench.plugins.spec import spec_of
from ope_bench.testing import problems
from ope_bench.testing.checks import (
    PARAMETER_CHECKS,
    CheckFailed,
    Checks,
    NotApplicable,
    UnderTest,
    check_docstring_has_formula_assumptions_and_reference,
    in_fresh_process,
    pickled_copy,
    require,
    unchanged_process_settings,
    untouched_global_random_state,
)
from ope_bench.trials.record import Trial
from ope_bench.trials.status import Status
from ope_bench.trials.trial import Workspace, run_trial

# An estimator under test: its results on small problems, and side effects of computing them.


class WatchedView(View):
    """A view that records which guarded attributes it and its copies for others were asked for."""

    def __init__(self, *data: Any, **options: Any) -> None:
        # Copies share the set: what nested estimators read counts as read by the estimator.
        self.read_attributes: set[str] = set()
        super().__init__(*data, **options)

    def _guarded(self, name: str) -> object:
        self.read_attributes.add(name)
        return super()._guarded(name)


@dataclass(frozen=True, eq=False)
class Answer:
    """The result of one fit and estimate.

    Parameters
    ----------
    estimator : the fitted estimator.
    view : the view that it received.
    estimate : None if it raised PositivityViolation.
    violation : the PositivityViolation that it raised, or None.
    changed : names of the problem's arrays that it changed.
    """

    estimator: Estimator
    view: WatchedView
    estimate: Estimate | None
    violation: PositivityViolation | None = None
    changed: tuple[str, ...] = ()


def _hashes(data: Problem) -> dict[str, str]:
    """Hash every array of the problem, of its policies and of its embedding distribution."""
    hashes = problems.array_hashes(data)
    for name in ("logging_policy", "target_policy", "embedding_distribution"):
        hashes |= problems.array_hashes(getattr(data, name), f"{name}.")
    return hashes


def _failed(name: str, reason: str, before: str = "") -> CheckFailed:
    """Return the failure on a problem, with the reason that other problems may share."""
    return CheckFailed(f"{name}: {before}{reason}", reason=reason)


class EstimatorUnderTest(UnderTest[Estimator]):
    """An estimator and its results, each computed once and on a fresh copy."""

    def fresh(self, name: str, *, seed: int = 0) -> Answer:
        """Compute a new result on a problem; ``seed`` affects the estimator alone."""
        return self.compute(problems.problem(name), name, seed=seed)

    def compute(self, data: Problem, name: str, *, seed: int = 0) -> Answer:
        """Fit and estimate on a problem.

        Raises
        ------
        NotApplicable : the estimator is unavailable for this problem.
        CheckFailed : it raised another exception than PositivityViolation.
        """
        estimator, estimate, violation = self.make(), None, None
        streams = DataSeed("conformance", seed, 0)
        step, before = "fit", _hashes(data)
        try:
            import_all(estimator.requires)
            view = WatchedView(
                data,
                estimator.access,
                seed=streams,
                fit_cache=FitCache(),
                optional=estimator.optional_access,
            )
            estimator.fit(view, rng=streams.estimator("conformance"), device="cpu")
            step = "estimate"
            estimate = estimator.estimate(view)
        except UnavailableError as exc:
            msg = f"{name}: {exc}"
            raise NotApplicable(msg) from exc
        except PositivityViolation as exc:
            violation = exc
        except Warning:
            # Under pytest, the author's warning filters turn warnings into errors.
            raise
        except Exception as exc:
            raise _failed(
                name, self.explain_exception(exc), f"{step} raised {class_name(exc)}: "
            ) from exc
        if violation is None and not isinstance(estimate, Estimate):
            what = f"estimate returned {type(estimate).__name__}; expected ope_bench.Estimate"
            raise _failed(name, explain(what))
        after = _hashes(data)
        changed = tuple(name for name in before if before[name] != after[name])
        return Answer(estimator, view, estimate, violation, changed)

    def answer(self, name: str, *, seed: int = 0) -> Answer:
        """Return the result on a problem, computed once."""
        key = name, seed
        if key not in self.computed:
            try:
                self.computed[key] = self.fresh(name, seed=seed)
            except NotApplicable as exc:
                self.computed[key] = exc
        found: Answer | NotApplicable = self.computed[key]
        if isinstance(found, NotApplicable):
            raise found
        return found

    def answers(self, names: tuple[str, ...]) -> Iterator[tuple[str, Answer]]:
        """Yield the results on those of the problems for which the estimator is available.

        Raises
        ------
        NotApplicable : it is available for none; the message has the reasons.
        """
        reasons = []
        for name in names:
            try:
                yield name, self.answer(name)
            except NotApplicable as exc:
                reasons.append(str(exc))
        if len(reasons) == len(names):
            raise NotApplicable("; ".join(reasons))

    @cached_property
    def home(self) -> str:
        """The first problem with full support for which the estimator is available."""
        return next(self.answers(problems.SUPPORTED))[0]

    def value(self, result: Answer, name: str) -> float:
        """Return the estimate's value.

        Raises
        ------
        CheckFailed : there is none, after a PositivityViolation, or it is not finite.
        """
        if result.estimate is None:
            msg = f"{name}: raised PositivityViolation in spite of support: {result.violation}"
            raise CheckFailed(msg)
        value = result.estimate.value
        if not math.isfinite(value):
            raise _failed(name, explain(f"the estimate is {value}"))
        return value


def estimator_checks(
    *estimators: Estimator, expected_failures: Mapping[str, str] | None = None
) -> Checks[EstimatorUnderTest]:
    """Return the conformance checks of estimators; see `ope_bench.testing.Checks`.

    Parameters
    ----------
    estimators : objects; they are copied, never fitted.
    expected_failures : reasons by check name, in addition to those that the class declares.
    """
    return Checks([EstimatorUnderTest(one, expected_failures) for one in estimators], CHECKS)


def check_devices_include_the_cpu(subject: EstimatorUnderTest) -> None:
    """Every estimator must train on a CPU, so that everyone can run it."""
    devices = subject.make().devices
    unknown = sorted(set(devices) - {"cpu", "cuda"})
    require(
        "cpu" in devices and not unknown,
        f'devices = {devices!r}; expected ("cpu",) or ("cpu", "cuda")',
    )


def check_what_is_batched_is_what_fit_asks_for(subject: EstimatorUnderTest) -> None:
    """`fit` must request every fit that `batched` lists."""
    case = subject.home
    batched = subject.make().batched
    for spec in batched:
        lacks = [name for name in ("begin", "complete") if not hasattr(spec, name)]
        require(not lacks, f"{spec!r} is in `batched`, but has no {' and no '.join(lacks)}")
    if not batched:
        return
    requested = subject.answer(case).view.fitted_keys()
    unused = [repr(spec) for spec in batched if nuisance_key(spec, "cpu") not in requested]
    require(
        not unused,
        f"{case}: fit did not request {', '.join(unused)} of `batched` from view.fitted",
    )


def check_fit_returns_self_and_sets_names_that_end_in_underscore(
    subject: EstimatorUnderTest,
) -> None:
    """`fit` must return self, keep parameters and set attributes that end in `_`."""
    case = subject.home
    made = subject.make()
    parameters = dict(vars(made))
    returned = made.fit(subject.answer(case).view, rng=np.random.default_rng(0), device="cpu")
    require(returned is made, f"fit returned {type(returned).__name__}; end it with `return self`")
    changed = [name for name, value in parameters.items() if vars(made)[name] is not value]
    require(not changed, f"fit changes the parameter {', '.join(changed)}; use another name")
    odd = [name for name in vars(made) if name not in parameters and not name.endswith("_")]
    require(not odd, f"fit sets {', '.join(odd)}; end the name in `_`")


def check_estimate_is_finite_where_support_is_good(subject: EstimatorUnderTest) -> None:
    """The estimate must be finite where the logs cover the target policy."""
    for case, result in subject.answers(problems.SUPPORTED):
        value = subject.value(result, case)
        reward = problems.problem(case).reward
        span = 10 * (float(np.ptp(reward)) + abs(float(reward.mean())))
        require(
            abs(value) <= span,
            f"{case}: the estimate is {value:.4g}, but all rewards are within "
            f"[{reward.min():.3g}, {reward.max():.3g}]",
        )


def check_standard_error_and_weights_are_valid(subject: EstimatorUnderTest) -> None:
    """Standard error and weights must be finite, non-negative and of the right length."""
    for case, result in subject.answers(problems.SUPPORTED):
        estimate = result.estimate
        if estimate is None:
            continue
        error = estimate.standard_error
        require(
            error is None or (math.isfinite(error) and error >= 0),
            f"{case}: standard_error is {error}; use None without a standard error",
        )
        for name, rows in (("weights", result.view.n), ("target_weights", result.view.m)):
            weights = getattr(estimate, name)
            if weights is None:
                continue
            require(len(weights) == rows, f"{case}: {len(weights)} {name}; expected {rows}")
            bad = int((~np.isfinite(weights) | (weights < 0)).sum())
            require(bad == 0, f"{case}: {bad} of {rows} {name} are negative or not finite")


def check_same_seed_gives_the_same_estimate(subject: EstimatorUnderTest) -> None:
    """Runs with the same streams, and repeated calls of estimate, must agree bit for bit."""
    case = subject.home
    first, second = subject.answer(case), subject.fresh(case)
    values = subject.value(first, case), subject.value(second, case)
    require(
        values[0] == values[1],
        f"{case}: two runs with the same rng gave {values[0]!r} and {values[1]!r}; draw all "
        "randomness from the argument rng of fit",
    )
    again = second.estimator.estimate(second.view).value
    require(
        again == values[1],
        f"{case}: a second call of estimate gave {again!r} after {values[1]!r}; draw in fit, "
        "and keep what was drawn",
    )


def check_global_random_state_is_untouched(subject: EstimatorUnderTest) -> None:
    """Running the estimator must not change global random states."""
    case = subject.home
    with untouched_global_random_state("the argument rng of fit"):
        subject.fresh(case)


def check_process_settings_are_unchanged(subject: EstimatorUnderTest) -> None:
    """Running the estimator must not change settings of the process, on which others depend."""
    with unchanged_process_settings():
        # Where no check has looked for the home yet, that is a run.
        subject.fresh(subject.home) if "home" in vars(subject) else subject.home


def check_input_is_not_changed(subject: EstimatorUnderTest) -> None:
    """The arrays that all estimators share must not change."""
    for case, result in subject.answers(problems.SUPPORTED):
        changed = result.changed
        require(not changed, f"{case}: {', '.join(changed)} changed; copy before writing")


def check_declared_access_suffices(subject: EstimatorUnderTest) -> None:
    """The estimator must read only what `access` declares, even if it catches the error."""
    for case, result in subject.answers(problems.SUPPORTED):
        used = sorted(set(result.view.violations))
        require(
            not used,
            f"{case}: view.{', view.'.join(used)} was read, but `access` does not cover it "
            "(catching the AccessError does not help: the trial is an error)",
        )


def check_declared_access_is_needed(subject: EstimatorUnderTest) -> None:
    """Every declared flag must be used, so that boards show the information that it needs."""
    used: set[str] = set()
    declared: set[str] = set()
    cases = (*problems.SUPPORTED, *problems.UNSUPPORTED)
    for _, result in subject.answers(cases):
        used |= result.view.read_attributes
        declared |= set(result.view.access.words()) - {"samples"}
    if "logging_policy" in declared:
        # That flag also grants the propensity; the estimator may use either.
        declared.discard("propensity")
    unused = sorted(declared - used)
    require(
        not unused,
        f"access declares {', '.join(unused)}, which was never read in: {', '.join(cases)}; "
        "remove it",
    )


def check_identical_policies_give_the_logging_average(subject: EstimatorUnderTest) -> None:
    """With identical policies, the estimate must be near the mean logged reward."""
    for case, result in subject.answers(problems.IDENTICAL):
        value = subject.value(result, case)
        reward = problems.problem(case).reward
        mean = float(reward.mean())
        spread = float(reward.std()) / math.sqrt(len(reward))
        require(
            abs(value - mean) <= 5 * spread,
            f"{case}: the estimate is {value:.4f}, the mean reward {mean:.4f} ± {spread:.4f}: "
            f"{abs(value - mean) / spread:.1f} standard errors apart; with equal policies all "
            "weights are 1",
        )


def check_order_of_rows_does_not_matter(subject: EstimatorUnderTest) -> None:
    """Shuffled rows must give the same estimate, within the effect of another seed."""
    case = subject.home
    base = subject.value(subject.answer(case), case)
    other = subject.value(subject.answer(case, seed=1), case)
    result = problems.permuted(problems.problem(case), np.random.default_rng(3))
    shuffled = subject.value(subject.compute(result, case), case)
    reward = result.reward
    exact = 1e-6 * (1.0 + abs(base))
    spread = float(reward.std()) / math.sqrt(len(reward))
    # Folds and stochastic training depend on row order; wrongly paired rows change more.
    allowed = exact if other == base else max(3 * abs(other - base), 2 * spread)
    require(
        abs(shuffled - base) <= allowed,
        f"{case}: {base:.6f} became {shuffled:.6f} when rows were shuffled (allowed: "
        f"{allowed:.2g}); does something depend on the order of rows?",
    )


def check_fitted_estimator_can_be_pickled(subject: EstimatorUnderTest) -> None:
    """A pickled copy of the fitted estimator must give the same estimate."""
    case = subject.home
    result = subject.answer(case)
    copy = pickled_copy(subject, result.estimator)
    value, want = copy.estimate(result.view).value, subject.value(result, case)
    require(value == want, f"{case}: the pickled copy gives {value!r}; expected {want!r}")


def check_fresh_process_gives_the_same_estimate(subject: EstimatorUnderTest) -> None:
    """A new process must give the same estimate: earlier trials must have no effect."""
    case = subject.home
    want = subject.value(subject.answer(case), case).hex()
    have = in_fresh_process(subject.cls, _value_on_problem, subject.make(), case)
    require(
        have == want,
        f"{case}: a fresh process gives {float.fromhex(have)!r}, this one {float.fromhex(want)!r}",
    )


def check_a_trial_ends_ok_and_reports_its_times(subject: EstimatorUnderTest) -> None:
    """A trial, run as in a benchmark, must end ok with finite times."""
    case = subject.home
    environment = problems.Given(case)
    made = subject.make()
    trial = Trial(spec_of(environment), spec_of(made), replicate=0)
    record = run_trial(trial, Workspace(), environment=environment, estimator=made)
    if record.status is not Status.OK:
        msg = f"{case}: the trial's status is {record.status.value}: {record.reason}"
        raise CheckFailed(msg, reason=record.reason)
    for name in ("fit_seconds", "estimate_seconds"):
        seconds = getattr(record, name)
        require(
            seconds is not None and math.isfinite(seconds) and seconds >= 0,
            f"{case}: {name} is {seconds}",
        )


def check_missing_support_is_a_violation_or_a_finite_estimate(subject: EstimatorUnderTest) -> None:
    """Missing support must lead to a PositivityViolation or a finite estimate."""
    for case, result in subject.answers(problems.UNSUPPORTED):
        violation = result.violation
        if violation is None:
            subject.value(result, case)
            continue
        mass = violation.unsupported_mass
        require(
            mass is None or 0.0 <= mass <= 1.0 + 1e-9,
            f"{case}: PositivityViolation.unsupported_mass is {mass}; expected a share in [0, 1]",
        )
        require(str(violation), f"{case}: PositivityViolation has no message; say what is missing")


def _value_on_problem(estimator: Estimator, case: str) -> str:
    result = EstimatorUnderTest(estimator).fresh(case).estimate
    return "nan" if result is None else result.value.hex()


CHECKS = (
    *PARAMETER_CHECKS,
    check_docstring_has_formula_assumptions_and_reference,
    # Before the others that compute: what these change would no longer show.
    check_process_settings_are_unchanged,
    check_devices_include_the_cpu,
    check_what_is_batched_is_what_fit_asks_for,
    check_fit_returns_self_and_sets_names_that_end_in_underscore,
    check_estimate_is_finite_where_support_is_good,
    check_standard_error_and_weights_are_valid,
    check_same_seed_gives_the_same_estimate,
    check_global_random_state_is_untouched,
    check_input_is_not_changed,
    check_declared_access_suffices,
    check_declared_access_is_needed,
    check_identical_policies_give_the_logging_average,
    check_order_of_rows_does_not_matter,
    check_fitted_estimator_can_be_pickled,
    check_fresh_process_gives_the_same_estimate,
    check_a_trial_ends_ok_and_reports_its_times,
    check_missing_support_is_a_violation_or_a_finite_estimate,
)
"""All checks, in the order of running."""
