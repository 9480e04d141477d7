"""Checks that samples of an environment follow its policies and embedding distribution."""

from __future__ import annotations

from typing import cast

import numpy as np

from ope_bench.contracts.arrays import FloatArray
from ope_bench.contracts.embeddings import EmbeddingDistribution
from ope_bench.contracts.policies import Actions, DiscretePolicy, PairFunction, Policy
from ope_bench.testing.checks import NotApplicable, require
from ope_bench.testing.sampling import EnvironmentUnderTest, chi_square_p, z_of_means

__all__ = [
    "check_actions_follow_the_policies",
    "check_embedding_probabilities_sum_to_one",
    "check_embeddings_follow_their_distribution",
    "check_expect_is_the_sum_over_actions",
    "check_marginals_are_the_sums_over_actions",
    "check_policies_sum_to_one",
    "check_propensity_is_the_logging_policys",
    "check_schema_describes_the_columns",
]

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
        off = float(np.abs(ones - 1.0).max())
        require(off < 1e-6, f"{name}.expect of a constant 1 is off by up to {off:.2g}")
        if not isinstance(policy, DiscretePolicy):
            continue
        for rows, block in policy.blocks(context):
            low, total = float(block.min()), float(np.abs(block.sum(axis=1) - 1.0).max())
            require(low >= 0, f"{name} has the probability {low:.3g}")
            require(total < 1e-9, f"{name}: rows of its table sum to one only within {total:.2g}")
            best = block.argmax(axis=1)
            have = policy.probability(context[rows], best)
            want = np.take_along_axis(block, best[:, None], axis=1)[:, 0]
            gap = float(np.abs(have - want).max())
            require(gap < 1e-9, f"{name}.probability and its table differ by up to {gap:.2g}")


def check_expect_is_the_sum_over_actions(subject: EnvironmentUnderTest) -> None:
    """`expect` and `project` must equal the sums over the table."""
    for name, policy in _policies(subject):
        if not isinstance(policy, DiscretePolicy):
            msg = "actions are continuous"
            raise NotApplicable(msg)
        _few_actions(policy.n_actions)
        context = subject.draw().problem.context[:8]
        table = np.concatenate([block for _, block in policy.blocks(context)])
        value = np.cos(np.arange(policy.n_actions))
        want = table @ value
        have = policy.expect(context, lambda x, a, v=value: v[a])  # type: ignore[misc]
        gap = float(np.abs(have - want).max())
        require(gap < 1e-9, f"{name}.expect differs from the sum over its table by {gap:.2g}")
        gap = float(np.abs(policy.project(context, value[:, None])[:, 0] - want).max())
        require(gap < 1e-9, f"{name}.project differs from the sum over its table by {gap:.2g}")


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
    p, statistic, freedom = chi_square_p(counts, expected)
    require(
        p > UNLIKELY,
        f"{what} do not follow {name}: chi-square {statistic:.1f} on {freedom} degrees of "
        f"freedom, p = {p:.2g}",
    )
    mean, z = z_of_means(likely)
    require(
        abs(z) < FAR,
        f"{what} do not follow {name}: they are {mean:+.3g} more probable than expected, "
        f"{abs(z):.1f} standard errors",
    )


def _moments_follow(
    what: str, name: str, policy: Policy, context: FloatArray, action: Actions
) -> None:
    functions: list[tuple[str, PairFunction]] = [
        ("a", lambda x, a: a.astype(np.float64)),
        ("a^2", lambda x, a: a.astype(np.float64) ** 2),
    ]
    for shown, f in functions:
        mean, z = z_of_means(f(context, action) - policy.expect(context, f))
        require(
            abs(z) < FAR,
            f"{what}: the mean of {shown} is {mean:+.4g} from what {name} expects, "
            f"{abs(z):.1f} standard errors",
        )


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
        if fixed is None:
            msg = "the environment does not know how embeddings are drawn"
            raise NotApplicable(msg)
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
        p, statistic, freedom = chi_square_p(counts.ravel(), expected.ravel())
        require(
            p > UNLIKELY,
            f"{what} do not follow p(g|a): chi-square {statistic:.1f} on {freedom} degrees of "
            f"freedom, p = {p:.2g}",
        )


def check_marginals_are_the_sums_over_actions(subject: EnvironmentUnderTest) -> None:
    """`marginal` must equal sum_a pi(a|x) p(g|a), jointly over the embedding's dimensions."""
    problem = subject.need("embedding_distribution")
    known = cast(EmbeddingDistribution, problem.embedding_distribution)
    context, embedding = problem.context[:8], problem.embedding[:8]
    if problem.n_actions is not None:
        _few_actions(problem.n_actions)
    elif not known.probability(embedding, problem.action[:8] + 1e-9).all():
        msg = "the embedding is a function of a continuous action: there is no sum to compare"
        raise NotApplicable(msg)
    for name, policy in _policies(subject):
        have = known.marginal(policy, context, embedding)
        for row in range(len(context)):
            g = embedding[row]
            want = float(
                policy.expect(
                    context[row : row + 1],
                    lambda x, a, g=g: known.probability(  # type: ignore[misc]
                        np.tile(g, (len(a), 1)), a
                    ),
                )[0]
            )
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
    if not found:
        msg = "the environment has neither policy"
        raise NotApplicable(msg)
    return found


def _atoms(known: EmbeddingDistribution) -> FloatArray:
    atoms = known.support()
    if atoms is None:
        msg = "the embeddings have no finite support"
        raise NotApplicable(msg)
    if len(atoms) > MOST_ACTIONS:
        msg = f"{len(atoms)} possible embeddings are too many to enumerate"
        raise NotApplicable(msg)
    return atoms


def _few_actions(n_actions: int) -> None:
    if n_actions > MOST_ACTIONS:
        msg = f"{n_actions} actions are too many to enumerate"
        raise NotApplicable(msg)
