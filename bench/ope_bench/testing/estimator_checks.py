"""What every estimator must satisfy, one sentence-named function each."""

from __future__ import annotations

import math
import pickle
from collections.abc import Mapping

import numpy as np

from ope_bench.errors import PositivityViolation
from ope_bench.estimator import Estimator
from ope_bench.records import Status, Trial
from ope_bench.resolve import spec_of
from ope_bench.testing import constructors, docstrings
from ope_bench.testing.answering import Examined, answer
from ope_bench.testing.checks import Case, CheckFailed, Checks, require
from ope_bench.testing.constructors import importable
from ope_bench.testing.fresh_process import in_fresh_process
from ope_bench.testing.problems import (
    IDENTICAL,
    SUPPORTED,
    UNSUPPORTED,
    Given,
    permuted,
    problem,
)
from ope_bench.testing.random_state import untouched_global_random_state
from ope_bench.trial import Workspace, run_trial
from ope_bench.view import View, nuisance_key

__all__ = ["CHECKS", "estimator_checks"]


def estimator_checks(
    *estimators: Estimator, expected_failures: Mapping[str, str] | None = None
) -> Checks[Examined]:
    """The conformance checks of estimators; see `ope_bench.testing.Checks`.

    Parameters
    ----------
    estimators : objects; they are copied, never fitted.
    expected_failures : reasons by check name, beside those that the class declares.
    """
    cases = [
        Case(
            repr(estimator),
            Examined(estimator),
            {**type(estimator).expected_failures, **(expected_failures or {})},
        )
        for estimator in estimators
    ]
    return Checks(cases, CHECKS)


def check_devices_include_the_cpu(subject: Examined) -> None:
    """Every estimator can train on a CPU, so that anyone can run it."""
    devices = subject.make().devices
    unknown = sorted(set(devices) - {"cpu", "cuda"})
    require(
        "cpu" in devices and not unknown,
        f'devices = {devices!r}; expected ("cpu",) or ("cpu", "cuda")',
    )


def check_what_is_batched_is_what_fit_asks_for(subject: Examined) -> None:
    """Fits made for many replicates at once are found by the trials that they were made for."""
    world = subject.home
    batched = subject.make().batched
    for spec in batched:
        lacks = [name for name in ("begin", "complete") if not hasattr(spec, name)]
        require(not lacks, f"{spec!r} is in `batched`, but has no {' and no '.join(lacks)}")
    if not batched:
        return
    asked = subject.answer(world).view._memo.keys()
    lost = [repr(spec) for spec in batched if nuisance_key(spec, "cpu") not in asked]
    require(
        not lost,
        f"{world}: fit did not ask view.fitted for {', '.join(lost)}, which `batched` names",
    )


def check_fit_returns_self_and_sets_names_that_end_in_underscore(subject: Examined) -> None:
    """Parameters and what was learnt can be told apart by their names."""
    world = subject.home
    made = subject.make()
    parameters = dict(vars(made))
    given = subject.answer(world)
    view = View(problem(world), made.access, seed=given.view._seed, memo=given.view._memo)
    returned = made.fit(view, rng=np.random.default_rng(0), device="cpu")
    require(returned is made, f"fit returned {type(returned).__name__}; end it with `return self`")
    changed = [name for name, value in parameters.items() if vars(made)[name] is not value]
    require(not changed, f"fit changes the parameter {', '.join(changed)}; use another name")
    odd = [name for name in vars(made) if name not in parameters and not name.endswith("_")]
    require(not odd, f"fit sets {', '.join(odd)}; let the name end in `_`")


def check_estimate_is_finite_where_support_is_good(subject: Examined) -> None:
    """A finite number wherever the logs cover the target policy."""
    for world, given in subject.answers(SUPPORTED):
        value = subject.value(given, world)
        require(math.isfinite(value), f"{world}: the estimate is {value}")
        reward = problem(world).reward
        span = 10 * (float(np.ptp(reward)) + abs(float(reward.mean())))
        require(
            abs(value) <= span,
            f"{world}: the estimate is {value:.4g}, but all rewards are within "
            f"[{reward.min():.3g}, {reward.max():.3g}]",
        )


def check_standard_error_and_weights_are_valid(subject: Examined) -> None:
    """What comes with the estimate can be used as it is."""
    for world, given in subject.answers(SUPPORTED):
        estimate = given.estimate
        if estimate is None:
            continue
        error = estimate.standard_error
        require(
            error is None or (math.isfinite(error) and error >= 0),
            f"{world}: standard_error is {error}; give None where there is none",
        )
        for name, rows in (("weights", given.view.n), ("target_weights", given.view.m)):
            weights = getattr(estimate, name)
            if weights is None:
                continue
            require(len(weights) == rows, f"{world}: {len(weights)} {name}; expected {rows}")
            bad = int((~np.isfinite(weights) | (weights < 0)).sum())
            require(bad == 0, f"{world}: {bad} of {rows} {name} are negative or not finite")


def check_same_seed_gives_the_same_estimate(subject: Examined) -> None:
    """Two runs with the same streams agree in every bit, and so do two calls of estimate."""
    world = subject.home
    first, second = subject.answer(world), subject.fresh(world)
    values = subject.value(first, world), subject.value(second, world)
    require(
        values[0] == values[1],
        f"{world}: two runs with the same rng gave {values[0]!r} and {values[1]!r}; draw all "
        "randomness from the rng that fit is given",
    )
    again = second.estimator.estimate(second.view).value
    require(
        again == values[1],
        f"{world}: a second call of estimate gave {again!r} after {values[1]!r}; draw in fit, "
        "and keep what was drawn",
    )


def check_global_random_state_is_untouched(subject: Examined) -> None:
    """Nobody else's random numbers depend on this estimator having run."""
    world = subject.home
    with untouched_global_random_state("the rng that fit is given"):
        subject.fresh(world)


def check_input_is_not_changed(subject: Examined) -> None:
    """The arrays that all estimators share are as they were."""
    for world, given in subject.answers(SUPPORTED):
        changed = given.changed
        require(not changed, f"{world}: {', '.join(changed)} changed; copy before writing")


def check_declared_access_suffices(subject: Examined) -> None:
    """Nothing is read beyond what `access` declares, caught exceptions included."""
    for world, given in subject.answers(SUPPORTED):
        touched = sorted(set(given.view.violations))
        require(
            not touched,
            f"{world}: view.{', view.'.join(touched)} was read, but `access` does not cover it "
            "(swallowing the AccessError does not help: the trial is an error)",
        )


def check_declared_access_is_needed(subject: Examined) -> None:
    """Every declared flag is used, so that boards compare like with like."""
    touched: set[str] = set()
    declared: set[str] = set()
    worlds = (*SUPPORTED, *UNSUPPORTED)
    for _, given in subject.answers(worlds):
        touched |= given.touched
        declared |= set(given.view.access.words()) - {"samples"}
    if "logging_policy" in declared:
        # That flag opens the propensity too; either may be the part that is used.
        declared.discard("propensity")
    unused = sorted(declared - touched)
    require(
        not unused,
        f"access declares {', '.join(unused)}, which was never read in: {', '.join(worlds)}; "
        "declare less",
    )


def check_identical_policies_give_the_logging_average(subject: Examined) -> None:
    """Where the target policy is the logging policy, its value is what the logs earned."""
    for world, given in subject.answers(IDENTICAL):
        value = subject.value(given, world)
        reward = problem(world).reward
        mean = float(reward.mean())
        spread = float(reward.std()) / math.sqrt(len(reward))
        require(
            abs(value - mean) <= 5 * spread,
            f"{world}: the estimate is {value:.4f}, the mean reward {mean:.4f} ± {spread:.4f}: "
            f"{abs(value - mean) / spread:.1f} standard errors apart; with equal policies all "
            "weights are 1",
        )


def check_order_of_rows_does_not_matter(subject: Examined) -> None:
    """Shuffled rows give the same estimate, up to what another seed would change."""
    world = subject.home
    base = subject.value(subject.answer(world), world)
    other = subject.value(subject.answer(world, seed=1), world)
    given = permuted(problem(world), np.random.default_rng(3))
    shuffled = subject.value(answer(subject.make(), given, world), world)
    reward = given.reward
    exact = 1e-6 * (1.0 + abs(base))
    spread = float(reward.std()) / math.sqrt(len(reward))
    # Folds and stochastic training follow row order; a row paired with a wrong one shows anyway.
    allowed = exact if other == base else max(3 * abs(other - base), 2 * spread)
    require(
        abs(shuffled - base) <= allowed,
        f"{world}: {base:.6f} became {shuffled:.6f} when rows were shuffled (allowed: "
        f"{allowed:.2g}); does something depend on a row's place?",
    )


def check_fitted_estimator_can_be_pickled(subject: Examined) -> None:
    """A fitted copy from a pickle gives the same estimate."""
    importable(subject.cls)
    world = subject.home
    given = subject.answer(world)
    try:
        copy = pickle.loads(pickle.dumps(given.estimator))  # noqa: S301  our own bytes
    except Exception as exc:
        msg = f"pickle raised {type(exc).__name__}: {exc}; keep lambdas and open files out of it"
        raise CheckFailed(msg) from exc
    value, want = copy.estimate(given.view).value, subject.value(given, world)
    require(value == want, f"{world}: the pickled copy gives {value!r}; expected {want!r}")


def check_fresh_process_gives_the_same_estimate(subject: Examined) -> None:
    """Workers start from nothing; what another trial left behind must not matter."""
    world = subject.home
    want = subject.value(subject.answer(world), world).hex()
    have = in_fresh_process(subject.cls, _value_in_world, subject.make(), world)
    require(
        have == want,
        f"{world}: a fresh process gives {float.fromhex(have)!r}, this one "
        f"{float.fromhex(want)!r}",
    )


def check_a_trial_ends_ok_and_reports_its_times(subject: Examined) -> None:
    """From end to end, as a benchmark runs it."""
    world = subject.home
    environment = Given(world)
    made = subject.make()
    trial = Trial(spec_of(environment), spec_of(made), replicate=0)
    record = run_trial(trial, Workspace(), environment=environment, estimator=made)
    require(
        record.status is Status.OK,
        f"{world}: the trial's status is {record.status.value}: {record.error_message}",
    )
    for name in ("fit_seconds", "estimate_seconds"):
        seconds = getattr(record, name)
        require(
            seconds is not None and math.isfinite(seconds) and seconds >= 0,
            f"{world}: {name} is {seconds}",
        )


def check_missing_support_is_a_violation_or_a_finite_estimate(subject: Examined) -> None:
    """PositivityViolation or a number; never NaN, infinity or another exception."""
    for world, given in subject.answers(UNSUPPORTED):
        if given.violation is not None:
            _check_violation(world, given.violation)
            continue
        value = subject.value(given, world)
        require(
            math.isfinite(value),
            f"{world}: the estimate is {value}; raise PositivityViolation where there is none",
        )


def _check_violation(world: str, violation: PositivityViolation) -> None:
    mass = violation.unsupported_mass
    require(
        mass is None or 0.0 <= mass <= 1.0 + 1e-9,
        f"{world}: PositivityViolation.unsupported_mass is {mass}; expected a share in [0, 1]",
    )
    require(str(violation), f"{world}: PositivityViolation has no message; say what is missing")


def _value_in_world(estimator: Estimator, world: str) -> str:
    given = answer(estimator, problem(world), world).estimate
    return "nan" if given is None else given.value.hex()


CHECKS = (
    constructors.check_constructor_only_stores_annotated_parameters,
    constructors.check_parameters_survive_json,
    constructors.check_clone_and_set_params_copy_parameters,
    constructors.check_nested_parameters_can_be_set,
    constructors.check_class_can_be_pickled,
    docstrings.check_docstring_starts_with_one_line,
    docstrings.check_docstring_has_formula_assumptions_and_reference,
    docstrings.check_docstring_describes_every_parameter,
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
"""In the order in which they are run."""
