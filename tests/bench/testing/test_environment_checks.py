"""Each check of environments catches the fault that it is named after, and says what to do."""
# ruff: noqa: NPY002  the global state is what a faulty plugin misuses

from dataclasses import replace

import numpy as np
import pytest

from ope_bench import (
    Column,
    Environment,
    FiniteEmbedding,
    Problem,
    Schema,
    Tabular,
    Truth,
    UnavailableError,
    params,
)
from ope_bench.testing import CheckFailed, NotApplicable, environment_checks

Q = np.array([[0.2, 0.5, 0.9], [0.7, 0.1, 0.4]])
ATOMS = np.array([[0.0], [1.0]])
EMBED = np.array([[0.8, 0.2], [0.5, 0.5], [0.1, 0.9]])


class FirstColumn:
    def __call__(self, context):
        return context[:, 0].astype(np.int64)


@params
class Sound(Environment):
    """Two contexts, three actions, two embeddings.

    Some Aspects of the Sequential Design of Experiments (Robbins, 1952).

    Parameters
    ----------
    n_samples : rows of either sample.
    """

    version = 1
    n_samples: int = 1000

    def tables(self, rng):
        logging = rng.dirichlet(np.ones(3) * 5, size=2)
        return logging, rng.dirichlet(np.ones(3) * 5, size=2)

    def sample(self, *, world_rng, logged_rng, target_rng):
        n = self.n_samples
        tables = self.tables(world_rng)
        logging, target = (Tabular(table, FirstColumn()) for table in tables)
        embed = FiniteEmbedding(ATOMS, EMBED)
        code = logged_rng.integers(2, size=n)
        context = code[:, None] * 1.0
        action, propensity = logging.draw(context, logged_rng)
        embedding = embed.sample(action, logged_rng)
        reward = Q[code, action] + 0.1 * logged_rng.standard_normal(n)
        target_code = target_rng.integers(2, size=n)
        target_context = target_code[:, None] * 1.0
        target_action = target.sample(target_context, target_rng)
        earned = Q[target_code, target_action] + 0.1 * target_rng.standard_normal(n)
        problem = Problem(
            context,
            action,
            embedding,
            reward,
            target_context,
            target_action,
            embed.sample(target_action, target_rng),
            3,
            Schema((Column("categorical", (0.0, 1.0)),), (Column("atoms"),)),
            propensity,
            logging,
            target,
            embedding_distribution=embed,
        )
        return problem, Truth(float((tables[1] * Q).sum(axis=1).mean()), 0.0, float(earned.mean()))


class Changed(Sound):
    """A sound environment whose problem or truth is changed afterwards."""

    def change(self, problem, truth, **streams):
        raise NotImplementedError

    def sample(self, **streams):
        problem, truth = super().sample(**streams)
        return self.change(problem, truth, **streams)


class NoRows(Sound):
    def __init__(self, rows: int = 10) -> None:
        self.rows = self.n_samples = rows


class Unseeded(Changed):
    def change(self, problem, truth, **streams):
        reward = problem.reward + np.random.default_rng().normal(size=len(problem.reward))
        return replace(problem, reward=reward), truth


class OneLog(Sound):
    def sample(self, *, world_rng, logged_rng, target_rng):
        fixed = np.random.default_rng(0)
        return super().sample(world_rng=world_rng, logged_rng=fixed, target_rng=target_rng)


class RedrawnWorld(Sound):
    def sample(self, *, world_rng, logged_rng, target_rng):
        return super().sample(world_rng=logged_rng, logged_rng=logged_rng, target_rng=target_rng)


class SharedStream(Sound):
    def sample(self, *, world_rng, logged_rng, target_rng):
        return super().sample(world_rng=world_rng, logged_rng=target_rng, target_rng=target_rng)


class WrongTruth(Changed):
    def change(self, problem, truth, **streams):
        return problem, replace(truth, expected=truth.expected + 0.05)


class WrongPropensity(Changed):
    def change(self, problem, truth, **streams):
        propensity = problem.propensity.copy()
        propensity[7] *= 0.5
        return replace(problem, propensity=propensity), truth


class WrongSum(Changed):
    def change(self, problem, truth, **streams):
        table = problem.target_policy.probabilities * 1.01
        return replace(problem, target_policy=Tabular(table, FirstColumn())), truth


class WrongPolicy(Changed):
    def change(self, problem, truth, **streams):
        other = Tabular(np.full((2, 3), 1 / 3), FirstColumn())
        return replace(problem, target_policy=other), truth


class WrongSampler(Changed):
    class Lazy(Tabular):
        def sample(self, context, rng):
            return np.zeros(len(context), dtype=np.int64)

    def change(self, problem, truth, **streams):
        lazy = self.Lazy(problem.target_policy.probabilities, FirstColumn())
        return replace(problem, target_policy=lazy), truth


class WrongEmbedding(Changed):
    def change(self, problem, truth, **streams):
        other = FiniteEmbedding(ATOMS, EMBED[:, ::-1].copy())
        return replace(problem, embedding_distribution=other), truth


class WrongEmbeddingSum(Changed):
    def change(self, problem, truth, **streams):
        return replace(problem, embedding_distribution=FiniteEmbedding(ATOMS, EMBED * 0.9)), truth


class WrongMarginal(Changed):
    class Product(FiniteEmbedding):
        def marginal(self, policy, context, embedding):
            return super().marginal(policy, context, embedding) ** 2

    def change(self, problem, truth, **streams):
        return replace(problem, embedding_distribution=self.Product(ATOMS, EMBED)), truth


class WrongExpect(Changed):
    class Halved(Tabular):
        def expect(self, context, f):
            return super().expect(context, f) * (1 + 1e-8)

    def change(self, problem, truth, **streams):
        halved = self.Halved(problem.target_policy.probabilities, FirstColumn())
        return replace(problem, target_policy=halved), truth


class UndeclaredCategory(Changed):
    def change(self, problem, truth, **streams):
        schema = Schema((Column("categorical", (0.0, 2.0)),), (Column("atoms"),))
        return replace(problem, schema=schema), truth


class OneUnit(Changed):
    def change(self, problem, truth, **streams):
        return replace(problem, unit=np.zeros(len(problem.reward))), truth


class UnitsOfTheTarget(Changed):
    def change(self, problem, truth, **streams):
        unit = streams["target_rng"].integers(9, size=len(problem.reward))
        return replace(problem, unit=unit), truth


class Resampled(Changed):
    """Half of the rows, each of them twice; contexts are numbers, no two of them alike."""

    units = False

    def change(self, problem, truth, **streams):
        half = np.arange(len(problem.reward)) // 2
        context = problem.context + 0.3 * np.sqrt(half)[:, None]
        unit = half if self.units else None
        problem = replace(problem, schema=None, logging_policy=None, target_policy=None)
        names = "action", "embedding", "reward", "propensity"
        repeated = {name: getattr(problem, name)[half] for name in names}
        return replace(problem, context=context[half], unit=unit, **repeated), truth


class ResampledWithUnits(Resampled):
    units = True


class GlobalRandom(Changed):
    def change(self, problem, truth, **streams):
        np.random.random()
        return problem, truth


class BadShape(Changed):
    def change(self, problem, truth, **streams):
        return replace(problem, context=problem.context[:-1]), truth


class Swapped(Changed):
    def change(self, problem, truth, **streams):
        return truth, problem


FAULTS = [
    (NoRows, "check_n_samples_is_the_number_of_logged_rows", "no parameter n_samples"),
    (Unseeded, "check_same_streams_give_the_same_problem", "reward changed"),
    (OneLog, "check_replicates_differ", "the logged rewards: the same"),
    (RedrawnWorld, "check_sampling_does_not_redraw_the_world", "draw its parameters from world"),
    (SharedStream, "check_logs_do_not_depend_on_the_target_stream", "changes with target_rng"),
    (WrongTruth, "check_truth_agrees_with_monte_carlo", "standard errors apart"),
    (WrongPropensity, "check_propensity_is_the_logging_policys", r"propensity\[7\]"),
    (WrongSum, "check_policies_sum_to_one", "off by up to 0.01"),
    (WrongPolicy, "check_actions_follow_the_policies", "chi-square .* degrees of freedom"),
    (WrongSampler, "check_actions_follow_the_policies", "target_policy.sample do not follow"),
    (WrongEmbedding, "check_embeddings_follow_their_distribution", "logged embeddings do not"),
    (WrongEmbeddingSum, "check_embedding_probabilities_sum_to_one", "sums to 0.9"),
    (WrongMarginal, "check_marginals_are_the_sums_over_actions", "the sum over actions is"),
    (WrongExpect, "check_expect_is_the_sum_over_actions", "differs from the sum"),
    (UndeclaredCategory, "check_schema_describes_the_columns", r"context\[:, 0\] holds \[1\.\]"),
    (OneUnit, "check_rows_are_of_several_units", "all 400 rows are of one unit"),
    (UnitsOfTheTarget, "check_logs_do_not_depend_on_the_target_stream", "unit changes with"),
    (Resampled, "check_repeated_rows_are_one_unit", "200 of 400 logged rows equal a row"),
    (GlobalRandom, "check_global_random_state_is_untouched", "numpy.random was changed"),
    (BadShape, "check_view_has_the_declared_shapes", "context has shape"),
    (Swapped, "check_view_has_the_declared_shapes", "return .Problem, Truth."),
]


@pytest.mark.parametrize(
    ("cls", "name", "message"), FAULTS, ids=[f"{c.__name__}-{n}" for c, n, _ in FAULTS]
)
def test_the_check_catches_the_fault(cls, name, message):
    with pytest.raises(CheckFailed, match=message):
        dict(environment_checks(cls()))[name]()


@environment_checks(Sound(), Sound(n_samples=60))
def test_a_sound_environment_passes(check):
    check()


def test_repeated_rows_of_one_unit_pass():
    checks = dict(environment_checks(ResampledWithUnits()))
    checks["check_repeated_rows_are_one_unit"]()
    checks["check_rows_are_of_several_units"]()


def test_an_environment_without_its_data_is_skipped_with_the_reason():
    class Absent(Sound):
        def sample(self, **streams):
            raise UnavailableError("data.csv is not here")

    with pytest.raises(NotApplicable, match=r"data\.csv is not here"):
        dict(environment_checks(Absent()))["check_replicates_differ"]()


def test_few_rows_are_sampled_unless_the_author_says_otherwise():
    [case] = environment_checks(Sound()).cases
    assert case.params == {"n_samples": 400}
    [case] = environment_checks(Sound(n_samples=60)).cases
    assert case.params == {"n_samples": 60}
