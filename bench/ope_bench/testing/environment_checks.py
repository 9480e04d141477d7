"""Conformance checks of environments, each a function named by a sentence."""

from __future__ import annotations

import hashlib
import inspect
import math
from collections.abc import Mapping

import numpy as np

from ope_bench.contracts.access import Access
from ope_bench.contracts.environment import Environment
from ope_bench.contracts.fit_cache import FitCache
from ope_bench.contracts.random.seeding import DataSeed
from ope_bench.contracts.view import View
from ope_bench.errors import UnavailableError
from ope_bench.testing import constructors, docstrings, imports, policy_checks
from ope_bench.testing.checks import Checks, NotApplicable, require, subjects_of
from ope_bench.testing.docstrings import REFERENCE
from ope_bench.testing.fresh_process import in_fresh_process
from ope_bench.testing.random_state import (
    unchanged_process_settings,
    untouched_global_random_state,
)
from ope_bench.testing.sampling import EnvironmentUnderTest, array_digests

__all__ = ["CHECKS", "environment_checks"]

REPLICATES = 40
FAR = 5.0
"""Standard errors."""
MOST_ALIKE = 0.05
"""Share of rows that may equal rows of other units by chance."""


def environment_checks(
    *environments: Environment, expected_failures: Mapping[str, str] | None = None
) -> Checks[EnvironmentUnderTest]:
    """Return the conformance checks of environments; see `ope_bench.testing.Checks`.

    Parameters
    ----------
    environments : objects; they are copied with small parameters.
    expected_failures : reasons by check name, in addition to those that the class declares.
    """
    cases = subjects_of(environments, EnvironmentUnderTest, expected_failures)
    return Checks(cases, CHECKS)


def check_version_is_a_positive_integer(subject: EnvironmentUnderTest) -> None:
    """`version` must count changes that alter numbers."""
    version = subject.cls.version
    require(
        type(version) is int and version >= 1,
        f"version is {version!r}; start at 1 and count up",
    )


def check_docstring_names_a_reference(subject: EnvironmentUnderTest) -> None:
    """The docstring must name the source of the problem."""
    text = inspect.cleandoc(subject.cls.__doc__ or "")
    require(
        REFERENCE.search(text),
        f"the docstring of {subject.cls.__name__} names no reference as `Title (Authors, year)`",
    )


def check_n_samples_is_the_number_of_logged_rows(subject: EnvironmentUnderTest) -> None:
    """Every environment must have a parameter for the number of rows."""
    require(
        "n_samples" in subject.params,
        "__init__ has no parameter n_samples; suites sweep it",
    )
    wanted = subject.params["n_samples"]
    if wanted is None:
        msg = "n_samples is None: all rows"
        raise NotApplicable(msg)
    rows = len(subject.draw().problem.reward)
    require(rows == wanted, f"n_samples is {wanted}, but the logs have {rows} rows")


def check_same_streams_give_the_same_problem(subject: EnvironmentUnderTest) -> None:
    """Equal streams must give bit-identical problems, truth included."""
    first, second = subject.draw(), subject.fresh()
    before, after = array_digests(first.problem), array_digests(second.problem)
    changed = [name for name in before if before[name] != after[name]]
    require(
        not changed,
        f"{', '.join(changed)} changed between two draws with the same streams; draw all "
        "randomness from the three given generators",
    )
    require(
        first.truth == second.truth,
        f"the truth changed between two draws with the same streams: {first.truth} and "
        f"{second.truth}",
    )


def check_replicates_differ(subject: EnvironmentUnderTest) -> None:
    """Other streams must give other logs and another target sample."""
    first, second = subject.draw(), subject.draw(0, 1, 1)
    for what, prefix in (("the logged rewards", "reward"), ("the target sample", "target_")):
        before, after = (array_digests(drawn.problem, prefix) for drawn in (first, second))
        require(
            before != after,
            f"{what}: the same in two replicates; draw from the given generators",
        )


def check_sampling_does_not_redraw_the_world(subject: EnvironmentUnderTest) -> None:
    """With a fixed world_rng, policies, embeddings and the expected value must not change."""
    first, second = subject.draw(), subject.draw(0, 1, 1)
    context, action = first.problem.context, first.problem.action
    for name in ("logging_policy", "target_policy"):
        policies = getattr(first.problem, name), getattr(second.problem, name)
        if None in policies:
            continue
        have, want = (policy.probability(context, action) for policy in policies)
        gap = float(np.abs(have - want).max())
        require(
            gap < 1e-12,
            f"{name} differs by up to {gap:.2g} between replicates with one world_rng; draw its "
            "parameters from world_rng",
        )
    fixed = first.problem.action_embedding, second.problem.action_embedding
    require(
        fixed[0] is None or (fixed[1] is not None and np.array_equal(fixed[0], fixed[1])),
        "action_embedding differs between replicates with one world_rng; draw it from that",
    )
    gap = abs(first.truth.expected - second.truth.expected)
    error = math.hypot(first.truth.expected_se, second.truth.expected_se)
    require(
        gap <= FAR * error + 1e-9 * (1 + abs(first.truth.expected)),
        f"with one world_rng truth.expected is {first.truth.expected:.6g} in one replicate and "
        f"{second.truth.expected:.6g} in another (standard error {error:.2g})",
    )


def check_logs_do_not_depend_on_the_target_stream(subject: EnvironmentUnderTest) -> None:
    """The logs must not depend on target_rng, so that several target policies can share them."""
    first, second = subject.draw(), subject.draw(0, 0, 1)
    for name in ("context", "action", "embedding", "reward", "propensity", "unit"):
        before, after = getattr(first.problem, name), getattr(second.problem, name)
        require(
            before is None or np.array_equal(before, after),
            f"{name} changes with target_rng; draw the logs from logged_rng only",
        )


def check_truth_agrees_with_monte_carlo(subject: EnvironmentUnderTest) -> None:
    """The expected value must be the mean of target rewards over many samples."""
    expected = subject.draw().truth
    means = np.array(
        [subject.draw(0, i, i).truth.empirical for i in range(REPLICATES)], dtype=np.float64
    )
    mean, spread = float(means.mean()), float(means.std(ddof=1)) / math.sqrt(REPLICATES)
    error = math.hypot(spread, expected.expected_se)
    require(
        abs(mean - expected.expected) <= FAR * error + 1e-9 * (1 + abs(mean)),
        f"truth.expected is {expected.expected:.6g} (standard error {expected.expected_se:.2g}), "
        f"but {REPLICATES} target samples average {mean:.6g} ± {spread:.2g}: "
        f"{abs(mean - expected.expected) / max(error, 1e-300):.1f} standard errors apart",
    )


def check_view_has_the_declared_shapes(subject: EnvironmentUnderTest) -> None:
    """The view's arrays must be read-only and have the shapes of the contract."""
    problem = subject.draw().problem
    access = Access.SAMPLES
    for name, flag in (
        ("propensity", Access.PROPENSITY),
        ("logging_policy", Access.LOGGING_POLICY),
        ("target_policy", Access.TARGET_POLICY),
        ("embedding_distribution", Access.EMBEDDING_DISTRIBUTION),
    ):
        if getattr(problem, name) is not None:
            access |= flag
    if Access.LOGGING_POLICY in access and problem.propensity is None:
        require(False, "logging_policy is given without propensity; the one implies the other")
    try:
        view = View(problem, access, seed=DataSeed("conformance", 0, 0), fit_cache=FitCache())
    except UnavailableError as exc:
        require(False, f"no view can be made: {exc}")
        raise
    for name in ("context", "action", "embedding", "reward", "unit"):
        for where, rows in ((name, view.n), (f"target_{name}", view.m)):
            if where == "target_reward":
                continue
            array = getattr(view, where)
            require(len(array) == rows, f"{where} has {len(array)} rows; expected {rows}")
            require(
                not array.flags.writeable,
                f"{where} can be written to",
            )


def check_rows_are_of_several_units(subject: EnvironmentUnderTest) -> None:
    """Units must be one integer per row, and at least two: one unit has no folds and no spread."""
    problem = subject.draw().problem
    view = View(problem, Access.SAMPLES, seed=DataSeed("conformance", 0, 0), fit_cache=FitCache())
    for name, rows in (("unit", view.n), ("target_unit", view.m)):
        units = getattr(view, name)
        require(
            units.shape == (rows,) and units.dtype == np.int64,
            f"{name} is {units.dtype} of shape {units.shape}; expected ({rows},) integers",
        )
        require(
            rows == 1 or len(np.unique(units)) > 1,
            f"all {rows} rows are of one {name}, so no folds can be made; omit it",
        )


def check_repeated_rows_are_one_unit(subject: EnvironmentUnderTest) -> None:
    """Copies of a row must be one unit: folds must not split them.

    Rows are compared only if their context has a continuous column that varies, because
    categorical contexts repeat. A few rows may be equal by chance, where numbers are rounded.
    """
    problem = subject.draw().problem
    columns = problem.schema.context if problem.schema is not None else ()
    varying = (problem.context != problem.context[:1]).any(axis=0)
    if not any(
        column.kind == "continuous" and varies
        for column, varies in zip(columns, varying, strict=True)
    ):
        msg = "no context column is continuous"
        raise NotApplicable(msg)
    rows = np.column_stack([problem.context, problem.action, problem.embedding, problem.reward])
    _, first, group = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    unit = np.arange(len(rows)) if problem.unit is None else problem.unit
    apart = unit != unit[first][group.reshape(-1)]
    require(
        apart.mean() <= MOST_ALIKE,
        f"{int(apart.sum())} of {len(rows)} logged rows equal a row of another unit; where "
        "rows are drawn with replacement, give Problem(unit=...) the number of the row drawn",
    )


def check_global_random_state_is_untouched(subject: EnvironmentUnderTest) -> None:
    """Sampling must not change global random states."""
    subject.draw()
    with untouched_global_random_state("the three given generators"):
        subject.fresh()


def check_process_settings_are_unchanged(subject: EnvironmentUnderTest) -> None:
    """Nobody else's trial depends on settings of the process that this environment changed."""
    with unchanged_process_settings():
        subject.fresh()


def check_fresh_process_gives_the_same_problem(subject: EnvironmentUnderTest) -> None:
    """A new process must sample the same problem: earlier samples must have no effect."""
    drawn = subject.draw()
    have = in_fresh_process(subject.cls, _digest_of_draw, subject.make())
    want = _digest(drawn.problem, drawn.truth.expected)
    require(have == want, "a fresh process samples another problem from the same streams")


def _digest_of_draw(environment: Environment) -> str:
    drawn = EnvironmentUnderTest(environment).draw()
    return _digest(drawn.problem, drawn.truth.expected)


def _digest(problem: object, expected: float) -> str:
    arrays = array_digests(problem)  # type: ignore[arg-type]
    return hashlib.sha256(f"{sorted(arrays.items())} {expected!r}".encode()).hexdigest()


CHECKS = (
    constructors.check_constructor_only_stores_annotated_parameters,
    constructors.check_parameters_survive_json,
    constructors.check_added_parameters_are_parameters,
    constructors.check_clone_and_set_params_copy_parameters,
    constructors.check_nested_parameters_can_be_set,
    constructors.check_class_can_be_pickled,
    imports.check_imported_packages_are_declared,
    docstrings.check_docstring_starts_with_one_line,
    check_docstring_names_a_reference,
    docstrings.check_docstring_describes_every_parameter,
    # Before the others that compute: what these change would no longer show.
    check_process_settings_are_unchanged,
    check_version_is_a_positive_integer,
    check_n_samples_is_the_number_of_logged_rows,
    check_same_streams_give_the_same_problem,
    check_replicates_differ,
    check_sampling_does_not_redraw_the_world,
    check_logs_do_not_depend_on_the_target_stream,
    check_truth_agrees_with_monte_carlo,
    check_view_has_the_declared_shapes,
    check_rows_are_of_several_units,
    check_repeated_rows_are_one_unit,
    policy_checks.check_policies_sum_to_one,
    policy_checks.check_expect_is_the_sum_over_actions,
    policy_checks.check_propensity_is_the_logging_policys,
    policy_checks.check_actions_follow_the_policies,
    policy_checks.check_embedding_probabilities_sum_to_one,
    policy_checks.check_embeddings_follow_their_distribution,
    policy_checks.check_marginals_are_the_sums_over_actions,
    policy_checks.check_schema_describes_the_columns,
    check_global_random_state_is_untouched,
    check_fresh_process_gives_the_same_problem,
)
"""All checks, in the order of running."""
