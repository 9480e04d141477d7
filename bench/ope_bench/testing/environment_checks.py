"""Conformance checks of environments, each a function named by a sentence."""

from __future__ import annotations

import hashlib
import inspect
import math
from collections.abc import Mapping
from typing import NamedTuple, cast

import numpy as np

from ope_bench.base.errors import DataError, UnavailableError
from ope_bench.contracts.arrays import FloatArray
from ope_bench.contracts.data import Problem, Truth
from ope_bench.contracts.embeddings import EmbeddingDistribution
from ope_bench.contracts.plugins import Environment
from ope_bench.contracts.policies import Actions, DiscretePolicy, PairFunction, Policy
from ope_bench.contracts.random import DataSeed
from ope_bench.contracts.view import Access, FitCache, View
from ope_bench.plugins.requirements import class_name, import_all
from ope_bench.testing.checks import (
    PARAMETER_CHECKS,
    REFERENCE,
    CheckFailed,
    Checks,
    NotApplicable,
    UnderTest,
    advise,
    applies,
    in_fresh_process,
    require,
    unchanged_process_settings,
    untouched_global_random_state,
)
from ope_bench.testing.problems import array_hashes

# An environment under test, and the statistics of its checks.


class ProblemSample(NamedTuple):
    """One sampled problem with its truth."""

    problem: Problem
    truth: Truth


class EnvironmentUnderTest(UnderTest[Environment]):
    """An environment and samples of it, each drawn once."""

    def fresh(self, definition: int = 0, logged: int = 0, target: int = 0) -> ProblemSample:
        """Draw a new sample; the numbers select the three random streams.

        Raises
        ------
        NotApplicable : the environment is unavailable here.
        CheckFailed : it raised another exception or returned a wrong type.
        """
        made = self.make()
        try:
            import_all(made.requires)
            drawn = made.sample(
                world_rng=DataSeed("conformance", definition, 0).world(),
                logged_rng=DataSeed("conformance", logged, 0).logged(),
                target_rng=DataSeed("conformance", target, 0).target(),
            )
        except UnavailableError as exc:
            raise NotApplicable(str(exc)) from exc
        except DataError as exc:
            msg = f"sample built an invalid problem: {self.explain_exception(exc)}"
            raise CheckFailed(msg) from exc
        except Warning:
            raise
        except Exception as exc:
            msg = f"sample raised {class_name(exc)}: {self.explain_exception(exc)}"
            raise CheckFailed(msg) from exc
        match drawn:
            case (Problem(), Truth()):
                return ProblemSample(*drawn)
        msg = f"sample returned {type(drawn).__name__}; return (Problem, Truth)"
        raise CheckFailed(msg)

    def draw(self, definition: int = 0, logged: int = 0, target: int = 0) -> ProblemSample:
        """Return the sample of three streams, drawn once."""
        key = definition, logged, target
        if key not in self.computed:
            self.computed[key] = self.fresh(*key)
        drawn: ProblemSample = self.computed[key]
        return drawn

    def need(self, *names: str) -> Problem:
        """Return the first problem; NotApplicable if it lacks one of ``names``."""
        problem = self.draw().problem
        missing = [name for name in names if getattr(problem, name) is None]
        applies(not missing, f"the environment does not know {', '.join(missing)}")
        return problem


def chi_square_p(counts: FloatArray, expected: FloatArray) -> tuple[float, float, int]:
    """Return p-value, statistic and degrees of freedom; bins with less than 5 expected are pooled.

    Counts whose probabilities vary from row to row have a smaller variance than multinomial ones,
    so that the p-value is conservative.

    >>> round(chi_square_p(np.array([48.0, 52.0]), np.array([50.0, 50.0]))[0], 3)
    0.689
    """
    from scipy.stats import chi2

    order = np.argsort(expected)[::-1]
    counts, expected = counts[order], expected[order]
    kept = int((expected >= 5).sum())
    if kept < len(expected):
        counts = np.append(counts[:kept], counts[kept:].sum())
        expected = np.append(expected[:kept], expected[kept:].sum())
        if len(expected) > 1 and expected[-1] < 5:
            counts = np.append(counts[:-2], counts[-2:].sum())
            expected = np.append(expected[:-2], expected[-2:].sum())
    freedom = len(expected) - 1
    if freedom < 1:
        return 1.0, 0.0, 0
    statistic = float(((counts - expected) ** 2 / expected).sum())
    return float(chi2.sf(statistic, freedom)), statistic, freedom


# Checks that samples of an environment follow its policies and embedding distribution.

UNLIKELY = 1e-6
"""p-values below this fail; seeds are fixed, so that results are reproducible."""
FAR = 5.0
"""Standard errors."""
DRAWS = 8
"""Number of draws with the same world_rng that are pooled."""
ROWS = 64
"""Number of rows on which sums over actions are compared."""
MOST_ACTIONS = 5_000
"""Most actions for a brute-force sum."""


def check_policies_sum_to_one(subject: EnvironmentUnderTest) -> None:
    """Probabilities must be non-negative, sum to one, and agree with `probability`."""
    for name, policy in _policies(subject):
        context = subject.draw().problem.context[:ROWS]
        ones = policy.expect(context, lambda x, a: np.ones(len(x)))
        _near(ones, 1.0, f"{name}.expect of a constant 1 is off", within=1e-6)
        if not isinstance(policy, DiscretePolicy):
            continue
        for rows, block in policy.blocks(context):
            require(block.min() >= 0, f"{name} has the probability {block.min():.3g}")
            _near(block.sum(axis=1), 1.0, f"{name}: sums of rows of its table differ from one")
            best = block.argmax(axis=1)
            have = policy.probability(context[rows], best)
            want = np.take_along_axis(block, best[:, None], axis=1)[:, 0]
            _near(have, want, f"{name}.probability and its table differ")
    # At every row, and the policies of several loggers.
    try:
        subject.draw().problem.check_policies()
    except DataError as exc:
        require(False, str(exc))


def check_expect_is_the_sum_over_actions(subject: EnvironmentUnderTest) -> None:
    """`expect` and `project` must equal the sums over the table."""
    for name, policy in _policies(subject):
        if not isinstance(policy, DiscretePolicy):
            msg = "actions are continuous"
            raise NotApplicable(msg)
        _few(policy.n_actions, "actions")
        context = subject.draw().problem.context[:8]
        table = np.concatenate([block for _, block in policy.blocks(context)])
        value = np.cos(np.arange(policy.n_actions))
        want = table @ value
        have = policy.expect(context, lambda x, a, v=value: v[a])  # type: ignore[misc]
        _near(have, want, f"{name}.expect differs from the sum over its table")
        have = policy.project(context, value[:, None])[:, 0]
        _near(have, want, f"{name}.project differs from the sum over its table")


def check_propensity_is_the_logging_policys(subject: EnvironmentUnderTest) -> None:
    """`propensity` must equal `logging_policy.probability` of the logged actions."""
    problem = subject.need("propensity", "logging_policy")
    have = cast(FloatArray, problem.propensity)
    want = cast(Policy, problem.logging_policy).probability(problem.context, problem.action)
    gap = np.abs(have - want) / want
    row = int(np.argmax(gap))
    require(
        gap[row] < 1e-9,
        f"propensity[{row}] is {have[row]:.6g}; logging_policy.probability gives {want[row]:.6g}",
    )


def check_actions_follow_the_policies(subject: EnvironmentUnderTest) -> None:
    """Logged, target and newly sampled actions must follow the policies (chi-square test)."""
    rng = np.random.default_rng(5)
    for name, policy in _policies(subject):
        logs = name == "logging_policy"
        problems = [subject.draw(0, i, i).problem for i in range(DRAWS)]
        context = np.concatenate([p.context if logs else p.target_context for p in problems])
        drawn = np.concatenate([p.action if logs else p.target_action for p in problems])
        for what, action in (
            ("the logged actions" if logs else "the target actions", drawn),
            (f"{name}.sample", policy.sample(context, rng)),
        ):
            if isinstance(policy, DiscretePolicy):
                _counts_follow(what, name, policy, context, action)
            _moments_follow(what, name, policy, context, action)


def _counts_follow(
    what: str, name: str, policy: DiscretePolicy, context: FloatArray, action: Actions
) -> None:
    counts = np.bincount(action, minlength=policy.n_actions).astype(np.float64)
    expected, likely = np.zeros(policy.n_actions), np.empty(len(action))
    for rows, block in policy.blocks(context):
        expected += block.sum(axis=0)
        taken = np.take_along_axis(block, action[rows, None], axis=1)[:, 0]
        # Has mean zero if each action follows its own row, which totals alone do not show.
        likely[rows] = taken - np.square(block).sum(axis=1)
    impossible = int(((expected == 0) & (counts > 0)).sum())
    require(impossible == 0, f"{what}: {impossible} actions have probability 0 under {name}")
    _follows(what, name, counts, expected)
    message = f"{what} do not follow {name}: they are {{:+.3g}} more probable than expected"
    _zero_mean(likely, message)


def _moments_follow(
    what: str, name: str, policy: Policy, context: FloatArray, action: Actions
) -> None:
    functions: list[tuple[str, PairFunction]] = [
        ("a", lambda x, a: a.astype(np.float64)),
        ("a^2", lambda x, a: a.astype(np.float64) ** 2),
    ]
    for shown, f in functions:
        message = f"{what}: the mean of {shown} is {{:+.4g}} from the mean under {name}"
        _zero_mean(f(context, action) - policy.expect(context, f), message)


def check_embedding_probabilities_sum_to_one(subject: EnvironmentUnderTest) -> None:
    """p(g|a) must sum to one over the support, for every action."""
    problem = subject.need("embedding_distribution")
    known = cast(EmbeddingDistribution, problem.embedding_distribution)
    atoms = _atoms(known)
    action = np.unique(problem.action)[:ROWS]
    total = np.zeros(len(action))
    for atom in atoms:
        total += known.probability(np.tile(atom, (len(action), 1)), action)
    off = np.abs(total - 1.0)
    worst = int(np.argmax(off))
    require(off[worst] < 1e-9, f"p(g|a={action[worst]}) sums to {total[worst]:.6g}")


def check_embeddings_follow_their_distribution(subject: EnvironmentUnderTest) -> None:
    """Logged embeddings must follow p(g|a) or `action_embedding` (chi-square test)."""
    problem = subject.draw().problem
    fixed, known = problem.action_embedding, problem.embedding_distribution
    if fixed is not None:
        for name, action, embedding in (
            ("embedding", problem.action, problem.embedding),
            ("target_embedding", problem.target_action, problem.target_embedding),
        ):
            wrong = int((fixed[action] != embedding).any(axis=1).sum())
            require(wrong == 0, f"{wrong} rows of {name} differ from action_embedding[action]")
    if known is None:
        applies(fixed is not None, "the environment does not know how embeddings are drawn")
        return
    atoms = _atoms(known)
    problems = [subject.draw(0, i, i).problem for i in range(DRAWS)]
    action = np.concatenate([one.action for one in problems])
    logged = np.concatenate([one.embedding for one in problems])
    fresh = known.sample(action, np.random.default_rng(6))
    # One bin per action and embedding; totals over actions can hide a wrong p(g|a).
    bins = int(action.max()) + 1 if problem.n_actions is not None else 1
    group = action if problem.n_actions is not None else np.zeros(len(action), dtype=np.int64)
    for what, embedding in (("the logged embeddings", logged), ("sample", fresh)):
        counts, expected = np.zeros((len(atoms), bins)), np.zeros((len(atoms), bins))
        for k, atom in enumerate(atoms):
            counts[k] = np.bincount(group[(embedding == atom).all(axis=1)], minlength=bins)
            probability = known.probability(np.tile(atom, (len(action), 1)), action)
            expected[k] = np.bincount(group, weights=probability, minlength=bins)
        strange = len(action) - int(counts.sum())
        require(strange == 0, f"{what}: {strange} rows are not in support()")
        _follows(what, "p(g|a)", counts.ravel(), expected.ravel())


def check_marginals_are_the_sums_over_actions(subject: EnvironmentUnderTest) -> None:
    """`marginal` must equal sum_a pi(a|x) p(g|a), jointly over the embedding's dimensions."""
    problem = subject.need("embedding_distribution")
    known = cast(EmbeddingDistribution, problem.embedding_distribution)
    context, embedding = problem.context[:8], problem.embedding[:8]
    if problem.n_actions is not None:
        _few(problem.n_actions, "actions")
    else:
        applies(
            known.probability(embedding, problem.action[:8] + 1e-9).all(),
            "the embedding is a function of a continuous action: there is no sum to compare",
        )
    for name, policy in _policies(subject):
        have = known.marginal(policy, context, embedding)
        for row in range(len(context)):

            def density(x: FloatArray, a: Actions, g: FloatArray = embedding[row]) -> FloatArray:
                return known.probability(np.tile(g, (len(a), 1)), a)

            want = float(policy.expect(context[row : row + 1], density)[0])
            require(
                abs(have[row] - want) <= 1e-6 * max(abs(want), 1e-12) + 1e-12,
                f"marginal of {name} at row {row} is {have[row]:.6g}; the sum over actions is "
                f"{want:.6g}",
            )


def check_schema_describes_the_columns(subject: EnvironmentUnderTest) -> None:
    """Categorical columns must contain declared categories only, and atoms must repeat."""
    problem = subject.draw().problem
    schema = problem.schema
    if schema is None:
        msg = "no schema"
        raise NotApplicable(msg)
    for kind, columns in (("context", schema.context), ("embedding", schema.embedding)):
        for where in (kind, f"target_{kind}"):
            values = getattr(problem, where)
            for j, column in enumerate(columns):
                if column.kind != "categorical":
                    continue
                strange = np.setdiff1d(values[:, j], np.array(column.categories))
                require(
                    strange.size == 0,
                    f"{where}[:, {j}] holds {strange[:3]}, which the schema's categories "
                    f"{column.categories[:6]} lack",
                )


def _policies(subject: EnvironmentUnderTest) -> list[tuple[str, Policy]]:
    problem = subject.draw().problem
    found = [
        (name, cast(Policy, getattr(problem, name)))
        for name in ("logging_policy", "target_policy")
        if getattr(problem, name) is not None
    ]
    applies(found, "the environment has neither policy")
    return found


def _near(
    have: FloatArray, want: FloatArray | float, message: str, *, within: float = 1e-9
) -> None:
    gap = float(np.abs(have - want).max())
    require(gap < within, f"{message} by up to {gap:.2g}")


def _follows(what: str, name: str, counts: FloatArray, expected: FloatArray) -> None:
    p, statistic, freedom = chi_square_p(counts, expected)
    require(
        p > UNLIKELY,
        f"{what} do not follow {name}: chi-square {statistic:.1f} on {freedom} degrees of "
        f"freedom, p = {p:.2g}",
    )


def _zero_mean(difference: FloatArray, message: str) -> None:
    """Require a mean near zero; the message has a place for it."""
    mean = float(difference.mean())
    error = float(difference.std(ddof=1)) / math.sqrt(len(difference))
    z = abs(mean) / max(error, 1e-12 * max(1.0, abs(mean)))
    require(z < FAR, f"{message.format(mean)}, {z:.1f} standard errors")


def _atoms(known: EmbeddingDistribution) -> FloatArray:
    atoms = known.support()
    if atoms is None:
        msg = "the embeddings have no finite support"
        raise NotApplicable(msg)
    _few(len(atoms), "possible embeddings")
    return atoms


def _few(count: int, noun: str) -> None:
    applies(count <= MOST_ACTIONS, f"{count} {noun} are too many to enumerate")


# Conformance checks of environments, each a function named by a sentence.

REPLICATES = 40
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
    cases = [EnvironmentUnderTest(one, expected_failures) for one in environments]
    return Checks(cases, CHECKS)


def check_version_is_a_positive_integer(subject: EnvironmentUnderTest) -> None:
    """`version` must count changes that alter numbers."""
    version = subject.cls.version
    require(
        type(version) is int and version >= 1,
        f"version is {version!r}; start at 1 and count up",
    )


def check_docstring_names_a_reference(subject: EnvironmentUnderTest) -> None:
    """A docstring names the source of the problem."""
    text = inspect.cleandoc(subject.cls.__doc__ or "")
    advise(
        subject.cls,
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
    applies(wanted is not None, "n_samples is None: all rows")
    rows = len(subject.draw().problem.reward)
    require(rows == wanted, f"n_samples is {wanted}, but the logs have {rows} rows")


def check_same_streams_give_the_same_problem(subject: EnvironmentUnderTest) -> None:
    """Equal streams must give bit-identical problems, truth included."""
    first, second = subject.draw(), subject.fresh()
    before, after = array_hashes(first.problem), array_hashes(second.problem)
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
        before, after = (
            [pair for pair in array_hashes(drawn.problem).items() if pair[0].startswith(prefix)]
            for drawn in (first, second)
        )
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
        cure = "draw its parameters from world_rng, which replicates share"
        _near(have, want, f"{name} differs between replicates ({cure})", within=1e-12)
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
    for name in ("propensity", "logging_policy", "target_policy", "embedding_distribution"):
        if getattr(problem, name) is not None:
            access |= Access[name.upper()]
    require(
        problem.logging_policy is None or problem.propensity is not None,
        "logging_policy is given without propensity; the one implies the other",
    )
    try:
        view = View(problem, access, seed=DataSeed("conformance", 0, 0), fit_cache=FitCache())
    except UnavailableError as exc:
        msg = f"no view can be made: {exc}"
        raise CheckFailed(msg) from exc
    for name in ("context", "action", "embedding", "reward", "unit"):
        for where, rows in ((name, view.n), (f"target_{name}", view.m)):
            if where == "target_reward":
                continue
            array = getattr(view, where)
            require(len(array) == rows, f"{where} has {len(array)} rows; expected {rows}")
            require(not array.flags.writeable, f"{where} can be written to")


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
    continuous = np.array([column.kind == "continuous" for column in columns])
    applies((continuous & varying).any(), "no context column is continuous")
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
    """Sampling must not change settings of the process, on which other trials depend."""
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


def _digest(problem: Problem, expected: float) -> str:
    arrays = array_hashes(problem)
    return hashlib.sha256(f"{sorted(arrays.items())} {expected!r}".encode()).hexdigest()


CHECKS = (
    *PARAMETER_CHECKS,
    check_docstring_names_a_reference,
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
    check_policies_sum_to_one,
    check_expect_is_the_sum_over_actions,
    check_propensity_is_the_logging_policys,
    check_actions_follow_the_policies,
    check_embedding_probabilities_sum_to_one,
    check_embeddings_follow_their_distribution,
    check_marginals_are_the_sums_over_actions,
    check_schema_describes_the_columns,
    check_global_random_state_is_untouched,
    check_fresh_process_gives_the_same_problem,
)
"""All checks, in the order of running."""
