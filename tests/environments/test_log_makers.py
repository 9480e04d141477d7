"""Worlds made from a log: what each maker keeps, its truth, and what estimators see of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

from ope_bench import Log, Problem, TargetPolicy, Truth
from ope_bench.base.errors import ParameterError, UnavailableError, UsageError
from ope_bench.logs.log_data import stored_log
from ope_environments.logs.environment import Logs
from ope_environments.logs.logging_model import fit_logging
from ope_environments.logs.makers.source import Source
from support.small_logs import discrete, frame_of, items_of, log_of, table_of, write_small

Draw = Callable[..., tuple[Problem, Truth]]

MODELS = ("linear", "boosting", "neighbors", "random", "constant")
MADE: list[dict[str, Any]] = [
    *({"maker": "pseudo-reward", "reward_model": model} for model in MODELS),
    *({"maker": "redrawn", "reward_model": model} for model in ("linear", "boosting")),
    {"maker": "resample", "kept": 0.5},
]


@pytest.fixture(scope="module")
def given() -> Problem:
    return discrete(400)


@pytest.fixture(scope="module")
def folder(given: Problem) -> Iterator[Path]:
    """The stored log, with both policies whole."""
    with stored_log(log_of(given)) as path:
        yield path


def world(folder: Path, **settings: Any) -> Logs:
    return Logs(**{"log": str(folder), "n_samples": None, **settings})


@pytest.mark.parametrize("settings", MADE[:7], ids=str)
def test_target_rewards_scatter_around_the_value(
    check: SimpleNamespace, draw: Draw, folder: Path, settings: dict[str, Any]
) -> None:
    truths = [draw(world(folder, **settings), 0, k, k)[1] for k in range(30)]
    check.scatter_around_the_value(truths)


@pytest.mark.parametrize("settings", MADE[5:7], ids=str)
def test_weighted_logs_of_redrawn_worlds_have_the_value_as_their_mean(
    check: SimpleNamespace, draw: Draw, folder: Path, settings: dict[str, Any]
) -> None:
    check.weigh_to_the_value(*draw(world(folder, **settings, n_samples=20_000)))


def test_the_truth_is_the_mean_over_rows_of_the_policys_mean_reward(
    draw: Draw, folder: Path, given: Problem
) -> None:
    """For the linear model, by a ridge regression written out here."""
    environment = world(folder, maker="pseudo-reward", ridge=2.0)
    truth = draw(environment)[1]
    x = np.column_stack(
        [np.ones(400), (given.context - given.context.mean(axis=0)) / given.context.std(axis=0)]
    )
    penalty = 2.0 * np.eye(x.shape[1])
    common = np.linalg.solve(x.T @ x + penalty, x.T @ given.reward)
    table = np.empty((400, 4))
    for action in range(4):
        mine = given.action == action
        left = given.reward[mine] - x[mine] @ common
        own = np.linalg.solve(x[mine].T @ x[mine] + penalty, x[mine].T @ left)
        table[:, action] = x @ (common + own)
    table = np.clip(table, given.reward.min(), given.reward.max())
    value = (table_of(given.target_policy, given) * table).sum(axis=1).mean()
    assert truth.expected == pytest.approx(value)
    assert truth.expected_se == 0.0


def test_pseudo_rewards_keep_rows_with_their_propensities(
    draw: Draw, folder: Path, given: Problem
) -> None:
    problem, _ = draw(world(folder, maker="pseudo-reward"))
    rows = problem.unit
    assert len(rows) == 400
    assert len(np.unique(rows)) < 400
    for name in ("context", "action", "propensity"):
        assert np.array_equal(getattr(problem, name), getattr(given, name)[rows])
    # Rewards are new, with the residuals of the log.
    assert not np.isin(problem.reward, given.reward).any()
    # Policies that differ from row to row are those of the rows.
    wanted = given.target_policy.probability(given.context, given.action)[rows]
    said = problem.target_policy.probability(problem.context, problem.action)
    np.testing.assert_allclose(said, wanted)


def test_rewards_of_zeros_and_ones_stay_such(draw: Draw, given: Problem) -> None:
    binary = replace(given, reward=(given.reward > 0).astype(float), reward_range=None)
    with stored_log(log_of(binary)) as path:
        for settings in MADE:
            problem, _ = draw(world(path, **settings))
            assert set(np.unique(problem.reward)) <= {0.0, 1.0}
            assert problem.reward_range == (None if settings["maker"] == "resample" else (0, 1))


def test_only_random_rewards_differ_from_world_to_world(draw: Draw, folder: Path) -> None:
    for model in MODELS:
        environment = world(folder, maker="pseudo-reward", reward_model=model)
        values = {draw(environment, seed)[1].expected for seed in range(3)}
        assert len(values) == (3 if model == "random" else 1), model
    assert list(values) == [pytest.approx(draw(environment)[0].reward.mean(), abs=0.5)]


def test_redrawn_actions_come_from_the_given_logging_policy(
    draw: Draw, folder: Path, given: Problem
) -> None:
    problem, _ = draw(world(folder, maker="redrawn", n_samples=20_000))
    table = table_of(given.logging_policy, given)[problem.unit]
    at = np.arange(len(problem.action))
    np.testing.assert_allclose(problem.propensity, table[at, problem.action])
    count = np.bincount(problem.action, minlength=4)
    assert chisquare(count, table.sum(axis=0)).pvalue > 0.001
    assert np.array_equal(problem.embedding, given.action_embedding[problem.action])


def test_without_a_logging_policy_a_fitted_one_is_used_and_hidden(
    draw: Draw, given: Problem
) -> None:
    frame = frame_of(given)
    names = [name for name in frame if name[0] == "x"]
    whole = TargetPolicy(table=table_of(given.target_policy, given))
    log = Log.from_frame(
        frame, context=names, action="a", reward="r", propensity="p", target=whole
    )
    with stored_log(log) as path:
        problem, _ = draw(world(path, maker="redrawn"))
    data = Source(log.problem(None, np.random.default_rng(0))).decisions
    fitted = fit_logging(data, Source(problem).design, by_context=True)
    assert problem.logging_policy is None
    assert "add `logging" in problem.reason("logging_policy")
    assert (
        np.corrcoef(fitted.probability(given.context, given.action), given.propensity)[0, 1] > 0.5
    )
    unknown = Log.from_frame(frame, context=names, action="a", reward="r", target=whole)
    with stored_log(unknown) as path:
        problem, _ = draw(world(path, maker="redrawn"))
    assert problem.propensity is None


def test_actions_that_were_never_logged_are_never_redrawn(draw: Draw, given: Problem) -> None:
    seen = given.action != 3
    frame = {name: np.asarray(values)[seen] for name, values in frame_of(given).items()}
    table = np.full((int(seen.sum()), 4), 0.25)
    log = Log.from_frame(
        frame,
        context=[name for name in frame if name[0] == "x"],
        action="a",
        reward="r",
        propensity="p",
        items=items_of(given),
        target=TargetPolicy(table=table),
    )
    with stored_log(log) as path:
        for how in ("logistic", "shares"):
            problem, _ = draw(world(path, maker="redrawn", logging_model=how, n_samples=5_000))
            assert set(np.unique(problem.action)) == {0, 1, 2}


def test_a_sub_sample_has_the_mixtures_propensities_and_the_whole_logs_estimate(
    draw: Draw, folder: Path, given: Problem
) -> None:
    problem, truth = draw(world(folder, maker="resample", kept=0.5))
    wanted = given.target_policy.probability(given.context, given.action)
    weight = wanted / given.propensity
    value = (weight * given.reward).sum() / weight.sum()
    error = math.sqrt((weight**2 * (given.reward - value) ** 2).sum()) / weight.sum()
    assert (truth.expected, truth.expected_se) == pytest.approx((value, error))
    rows = problem.unit
    assert len(np.unique(rows)) == len(rows) < 400
    for name in ("context", "action", "reward"):
        assert np.array_equal(getattr(problem, name), getattr(given, name)[rows])
    skew = (1 / 0.5 - 1) / (weight.max() - 1)
    mixture = (1 - skew) * given.propensity + skew * wanted
    np.testing.assert_allclose(problem.propensity, mixture[rows])
    assert len(rows) == pytest.approx(200, abs=45)
    said = problem.logging_policy.probability(problem.context, problem.action)
    np.testing.assert_allclose(said, problem.propensity)


@pytest.mark.parametrize("toward", [0.0, 0.25, 0.5, 0.75, 1.0])
def test_pseudo_loggers_have_the_share_of_the_target_that_is_asked_for(
    draw: Draw, folder: Path, given: Problem, toward: float
) -> None:
    problem, truth = draw(world(folder, maker="resample", toward=toward, kept=0.9))
    wanted = given.target_policy.probability(given.context, given.action)
    mixture = (1 - toward) * given.propensity + toward * wanted
    np.testing.assert_allclose(problem.propensity, mixture[problem.unit])
    assert truth == draw(world(folder, maker="resample"))[1]


def test_sub_samples_follow_the_mixture(draw: Draw) -> None:
    """Many rows of two contexts, so that actions can be counted."""
    rng = np.random.default_rng(0)
    x = rng.integers(2, size=20_000)
    logging = np.array([[0.5, 0.3, 0.2], [0.2, 0.2, 0.6]])
    target = np.array([[0.1, 0.1, 0.8], [0.9, 0.1, 0.0]])
    action = (np.cumsum(logging[x], axis=1) < rng.random(len(x))[:, None]).sum(axis=1)
    frame = {"x": x, "a": action, "r": rng.random(len(x)), "p": logging[x, action]}
    log = Log.from_frame(
        frame | {"q": target[x, action]},
        context=["x"],
        action="a",
        reward="r",
        propensity="p",
        target=TargetPolicy(logged_probability="q"),
    )
    with stored_log(log) as path:
        problem, _ = draw(world(path, maker="resample", kept=0.4))
    skew = (1 / 0.4 - 1) / (0.9 / 0.2 - 1)
    mixture = (1 - skew) * logging + skew * target
    for value in (0, 1):
        at = problem.action[problem.context[:, 0] == value]
        count = np.bincount(at, minlength=3)
        assert chisquare(count, mixture[value] * len(at)).pvalue > 0.001
    # Only probabilities of logged actions are known, here as on the log.
    assert problem.logging_policy is None
    with pytest.raises(UnavailableError, match="give `target: "):
        problem.target_policy.expect(problem.context, lambda context, action: context[:, 0])
    with stored_log(log) as path, pytest.raises(UnavailableError, match="no target sample"):
        draw(world(path, maker="pseudo-reward"))


def test_a_sampled_policy_keeps_its_actions_and_says_nothing_more(
    draw: Draw, given: Problem
) -> None:
    taken = given.target_policy.sample(given.context, np.random.default_rng(3))
    log = log_of(given, new=TargetPolicy(sampled=taken))
    with stored_log(log) as path:
        problem, truth = draw(world(path, maker="pseudo-reward", reward_model="linear"))
        assert np.array_equal(problem.target_action, taken[problem.unit])
        assert problem.target_policy is None
        with pytest.raises(UnavailableError, match="known by its actions only"):
            draw(world(path, maker="resample"))
    model = Source(log.problem(None, np.random.default_rng(0)))
    assert truth.expected == pytest.approx(
        model.value(lambda context, action: Linear(model)(context, action)), rel=1e-9
    )


class Linear:
    """The default linear model at pairs."""

    def __init__(self, source: Source) -> None:
        from ope_environments.logs.reward_model import fit_linear

        self.model = fit_linear(source.decisions, source.design, 10.0)

    def __call__(self, context: np.ndarray, action: np.ndarray) -> np.ndarray:
        return self.model.at(context, action)


def test_units_are_drawn_whole(draw: Draw, given: Problem) -> None:
    frame = frame_of(given) | {"session": np.repeat(np.arange(100), 4)}
    log = Log.from_frame(
        frame,
        context=[name for name in frame if name[0] == "x"],
        action="a",
        reward="r",
        propensity="p",
        unit="session",
        target=TargetPolicy(table=table_of(given.target_policy, given)),
    )
    with stored_log(log) as path:
        problem, _ = draw(world(path, maker="pseudo-reward"))
        fewer, _ = draw(world(path, maker="pseudo-reward", n_samples=100))
    assert set(np.bincount(problem.unit) % 4) == {0}
    assert len(problem.unit) == 400
    assert len(fewer.unit) == 100


def test_a_log_file_is_read_and_its_tables_are_its_data(draw: Draw, tmp_path: Path) -> None:
    path = write_small(tmp_path)
    environment = Logs(log=str(path), maker="redrawn", reward_model="constant")
    assert environment.data_files == (str(path), str(tmp_path / "d.csv"))
    assert environment.origin_note == ""
    with pytest.raises(UnavailableError, match="fewer than 20; keep more"):
        draw(Logs(log=str(path), maker="resample", kept=0.1))


@pytest.mark.parametrize(
    ("settings", "error", "said"),
    [
        ({"maker": "resample", "log": None}, ParameterError, "name it by `log`"),
        ({"maker": "resample", "kept": 0.1}, UnavailableError, "keep more"),
        ({"policy": "newe"}, UsageError, "no policy 'newe'; did you mean 'new'"),
        ({}, UsageError, "the log has 2 policies .new, old.; name one"),
        ({"log": "none.yaml"}, UsageError, "no such file"),
    ],
)
def test_mistakes_are_said(
    draw: Draw, given: Problem, settings: dict[str, Any], error: type, said: str
) -> None:
    few = discrete(30)
    q = TargetPolicy(logged_probability="q")
    log = log_of(few, new=q, old=q)
    with stored_log(log) as path:
        asked = {"log": str(path), **settings}
        if settings.get("kept"):
            asked["policy"] = "new"
        with pytest.raises(error, match=said):
            draw(Logs(**asked))
