"""Policies are checked before the first trial on each data set, at as many rows as is due."""

from __future__ import annotations

import numpy as np
import pytest

from ope_bench import DiscretePolicy, Environment, Problem, Truth
from ope_bench.base.errors import DataError
from ope_bench.plugins.registry import registry
from ope_bench.plugins.spec import resolve, spec_of
from ope_bench.trials.record import Trial
from ope_bench.trials.trial import BUILT_IN_ROWS, Workspace

N = 500


class OneWrongRow(DiscretePolicy):
    """Two actions, whose probabilities sum to 1.5 in one row."""

    def table(self, context):
        return np.full((len(context), 2), 0.5) + 0.25 * (context == 321)


class WrongRow(Environment):
    """A plugin with such a policy."""

    def sample(self, *, world_rng, logged_rng, target_rng):
        rows = np.arange(float(N))[:, None]
        none = dict.fromkeys(("target_context", "target_action", "target_embedding"))
        problem = Problem(
            context=rows,
            action=np.zeros(N, int),
            embedding=rows,
            reward=np.zeros(N),
            n_actions=2,
            target_policy=OneWrongRow(2),
            **none,
        )
        return problem, Truth(0.0, 0.0, 0.0)


def sampled(environment: Environment) -> Problem:
    estimator = resolve("estimator", "logging-average")
    return Workspace().data(Trial(spec_of(environment), estimator, 0, seed=0), environment).problem


def test_every_row_of_a_plugin_is_checked():
    with pytest.raises(DataError, match=r"target_policy at context\[321\].* sum to 1.5"):
        sampled(WrongRow())


@pytest.mark.parametrize(
    ("name", "params", "expected"),
    [
        ("saito-toy", {"n_samples": 300}, BUILT_IN_ROWS),
        ("damaged", {"environment": "saito-toy[n_samples=300]", "drift": 0.5}, None),
    ],
)
def test_rows_of_built_in_environments_that_hold_data_of_others_are_all_checked(
    name, params, expected, monkeypatch
):
    asked = []
    monkeypatch.setattr(Problem, "check_policies", lambda problem, most=None: asked.append(most))
    spec = resolve("environment", name, params)
    sampled(registry().find("environment", name).cls(**spec.params))
    assert asked[-1] == expected
