"""What every environment must satisfy, one sentence-named function each."""

from __future__ import annotations

import hashlib
import inspect
import math
from collections.abc import Mapping

import numpy as np

from ope_bench.environment import Environment
from ope_bench.errors import UnavailableError
from ope_bench.memo import Memo
from ope_bench.seeding import DataSeed
from ope_bench.testing import constructors, docstrings, policy_checks
from ope_bench.testing.checks import Case, Checks, NotApplicable, require
from ope_bench.testing.docstrings import REFERENCE
from ope_bench.testing.fresh_process import in_fresh_process
from ope_bench.testing.random_state import untouched_global_random_state
from ope_bench.testing.sampling import ExaminedEnvironment, array_digests
from ope_bench.view import Access, View

__all__ = ["CHECKS", "environment_checks"]

REPLICATES = 40
FAR = 5.0
"""Standard errors."""


def environment_checks(
    *environments: Environment, expected_failures: Mapping[str, str] | None = None
) -> Checks[ExaminedEnvironment]:
    """The conformance checks of environments; see `ope_bench.testing.Checks`.

    Parameters
    ----------
    environments : objects; they are copied with small parameters.
    expected_failures : reasons by check name, beside those that the class declares.
    """
    cases = [
        Case(
            repr(environment),
            ExaminedEnvironment(environment),
            {**type(environment).expected_failures, **(expected_failures or {})},
        )
        for environment in environments
    ]
    return Checks(cases, CHECKS)


def check_version_is_a_positive_integer(subject: ExaminedEnvironment) -> None:
    """`version` counts changes that alter numbers."""
    version = subject.cls.version
    require(
        type(version) is int and version >= 1,
        f"version is {version!r}; start at 1 and count up",
    )


def check_docstring_names_a_reference(subject: ExaminedEnvironment) -> None:
    """A reader learns whence the problem comes."""
    text = inspect.cleandoc(subject.cls.__doc__ or "")
    require(
        REFERENCE.search(text),
        f"the docstring of {subject.cls.__name__} names no reference as `Title (Authors, year)`",
    )


def check_n_samples_is_the_number_of_logged_rows(subject: ExaminedEnvironment) -> None:
    """Every environment can be asked for more or fewer rows."""
    require(
        "n_samples" in subject.params,
        "__init__ has no parameter n_samples; suites sweep it",
    )
    wanted = subject.params["n_samples"]
    if wanted is None:
        msg = "n_samples is None: all there are"
        raise NotApplicable(msg)
    rows = len(subject.draw().problem.reward)
    require(rows == wanted, f"n_samples is {wanted}, but the logs have {rows} rows")


def check_same_streams_give_the_same_problem(subject: ExaminedEnvironment) -> None:
    """Equal streams give equal bits, truth included."""
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


def check_replicates_differ(subject: ExaminedEnvironment) -> None:
    """Other streams give other logs and another target sample."""
    first, second = subject.draw(), subject.draw(0, 1, 1)
    for what, prefix in (("the logged rewards", "reward"), ("the target sample", "target_")):
        before, after = (array_digests(drawn.problem, prefix) for drawn in (first, second))
        require(
            before != after,
            f"{what}: the same in two replicates; draw from the given generators",
        )


def check_sampling_does_not_redraw_the_world(subject: ExaminedEnvironment) -> None:
    """With the world's stream fixed, policies, embeddings and the expected value stay."""
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
            f"{name} differs between replicates of one world by up to {gap:.2g}; draw its "
            "parameters from world_rng",
        )
    fixed = first.problem.action_embedding, second.problem.action_embedding
    require(
        fixed[0] is None or (fixed[1] is not None and np.array_equal(fixed[0], fixed[1])),
        "action_embedding differs between replicates of one world; draw it from world_rng",
    )
    gap = abs(first.truth.expected - second.truth.expected)
    error = math.hypot(first.truth.expected_se, second.truth.expected_se)
    require(
        gap <= FAR * error + 1e-9 * (1 + abs(first.truth.expected)),
        f"the expected value of one world is {first.truth.expected:.6g} in one replicate and "
        f"{second.truth.expected:.6g} in another (standard error {error:.2g})",
    )


def check_logs_do_not_depend_on_the_target_stream(subject: ExaminedEnvironment) -> None:
    """Logs are drawn first, so that several target policies can share them."""
    first, second = subject.draw(), subject.draw(0, 0, 1)
    for name in ("context", "action", "embedding", "reward", "propensity"):
        before, after = getattr(first.problem, name), getattr(second.problem, name)
        require(
            before is None or np.array_equal(before, after),
            f"{name} changes with target_rng; draw the logs from logged_rng only",
        )


def check_truth_agrees_with_monte_carlo(subject: ExaminedEnvironment) -> None:
    """The expected value is the mean of target rewards over many samples of one world."""
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


def check_view_has_the_declared_shapes(subject: ExaminedEnvironment) -> None:
    """A view shows both samples, read-only, in the shapes of the contract."""
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
        view = View(problem, access, seed=DataSeed("conformance", 0, 0), memo=Memo())
    except UnavailableError as exc:
        require(False, f"no view can be made: {exc}")
        raise
    for name in ("context", "action", "embedding", "reward"):
        for where, rows in ((name, view.n), (f"target_{name}", view.m)):
            if where == "target_reward":
                continue
            array = getattr(view, where)
            require(len(array) == rows, f"{where} has {len(array)} rows; expected {rows}")
            require(
                not array.flags.writeable,
                f"{where} can be written to",
            )


def check_global_random_state_is_untouched(subject: ExaminedEnvironment) -> None:
    """Nobody else's random numbers depend on this environment having been sampled."""
    subject.draw()
    with untouched_global_random_state("the three given generators"):
        subject.fresh()


def check_fresh_process_gives_the_same_problem(subject: ExaminedEnvironment) -> None:
    """Workers start from nothing; what was sampled before must not matter."""
    drawn = subject.draw()
    have = in_fresh_process(subject.cls, _digest_of_draw, subject.make())
    want = _digest(drawn.problem, drawn.truth.expected)
    require(have == want, "a fresh process samples another problem from the same streams")


def _digest_of_draw(environment: Environment) -> str:
    drawn = ExaminedEnvironment(environment).draw()
    return _digest(drawn.problem, drawn.truth.expected)


def _digest(problem: object, expected: float) -> str:
    arrays = array_digests(problem)  # type: ignore[arg-type]
    return hashlib.sha256(f"{sorted(arrays.items())} {expected!r}".encode()).hexdigest()


CHECKS = (
    constructors.check_constructor_only_stores_annotated_parameters,
    constructors.check_parameters_survive_json,
    constructors.check_clone_and_set_params_copy_parameters,
    constructors.check_nested_parameters_can_be_set,
    constructors.check_class_can_be_pickled,
    docstrings.check_docstring_starts_with_one_line,
    check_docstring_names_a_reference,
    docstrings.check_docstring_describes_every_parameter,
    check_version_is_a_positive_integer,
    check_n_samples_is_the_number_of_logged_rows,
    check_same_streams_give_the_same_problem,
    check_replicates_differ,
    check_sampling_does_not_redraw_the_world,
    check_logs_do_not_depend_on_the_target_stream,
    check_truth_agrees_with_monte_carlo,
    check_view_has_the_declared_shapes,
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
"""In the order in which they are run."""
