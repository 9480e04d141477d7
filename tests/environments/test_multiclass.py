"""`multiclass`: the value by enumeration, labels of any kind, exploration and embeddings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ope_bench.data import Problem, Truth
from ope_bench.errors import ParameterError, UnavailableError
from ope_environments.data_files import DataFileError
from ope_environments.multiclass.classifier_policy import ClassifierPolicy
from ope_environments.multiclass.environment import Multiclass

Draw = Callable[..., tuple[Problem, Truth]]

SETTINGS: list[dict[str, Any]] = [
    {"dataset": "iris"},
    {"dataset": "wine", "reward_noise": 0.2, "embedding": "one-hot"},
    {"dataset": "breast_cancer", "target_classifier": "naive-bayes", "target_temperature": 2.0},
    {"dataset": "iris", "logging_classifier": "naive-bayes", "shared_contexts": True},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_target_rewards_scatter_around_the_value(
    check: SimpleNamespace, draw: Draw, settings: dict[str, Any]
) -> None:
    world = Multiclass(n_samples=5000, **settings)
    truths = [draw(world, 0, k, k)[1] for k in range(20)]
    check.scatter_around_the_value(truths)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_weighted_logs_have_the_value_as_their_mean(
    check: SimpleNamespace, draw: Draw, settings: dict[str, Any]
) -> None:
    problem, truth = draw(Multiclass(n_samples=50_000, **settings))
    check.weigh_to_the_value(problem, truth)


def test_the_value_is_the_mean_probability_of_the_right_label(draw: Draw, tmp_path: Path) -> None:
    # Rows that say their label: the classifier is always right, exploration in half of its share.
    rows = ["0.0,a"] * 30 + ["1.0,b"] * 50
    path = tmp_path / "two.csv"
    path.write_text("x,y\n" + "\n".join(rows))
    world = Multiclass(
        dataset=str(path), label="y", d_embedding=1, target_epsilon=0.4, n_samples=10
    )
    _, truth = draw(world)
    assert truth.expected == pytest.approx(0.6 + 0.4 / 2, abs=1e-12)


def test_noise_moves_the_value_towards_one_half(draw: Draw) -> None:
    plain = draw(Multiclass(dataset="iris", n_samples=10))[1].expected
    noisy = draw(Multiclass(dataset="iris", n_samples=10, reward_noise=0.2))[1].expected
    assert noisy == pytest.approx(0.2 + 0.6 * plain, abs=1e-12)


@pytest.mark.parametrize(
    "labels", [("yes", "no", "perhaps"), ("3", "20", "100"), ("1.5", "-2", "0")]
)
def test_labels_may_be_words_or_numbers(
    draw: Draw, tmp_path: Path, labels: tuple[str, ...]
) -> None:
    rng = np.random.default_rng(0)
    path = tmp_path / "t.csv"
    rows = [f"{rng.normal() + k % 3:.3f},{'uv'[k % 2]},{labels[k % 3]}" for k in range(90)]
    path.write_text("number,word,label\n" + "\n".join(rows))
    problem, _ = draw(Multiclass(dataset=str(path), label="label", d_embedding=2, n_samples=100))
    assert problem.n_actions == 3
    assert problem.context.shape == (100, 3)
    assert problem.schema is not None
    assert [column.kind for column in problem.schema.context] == [
        "continuous",
        "categorical",
        "categorical",
    ]


def test_temperature_and_exploration_are_what_they_say() -> None:
    class Model:
        classes_ = np.array([0, 2])

        def predict_proba(self, context: np.ndarray) -> np.ndarray:
            return np.tile([0.2, 0.8], (len(context), 1))

    x = np.zeros((1, 1))
    np.testing.assert_allclose(
        ClassifierPolicy(Model(), 3, 1.0, 0.3).table(x), [[0.24, 0.1, 0.66]], atol=1e-9
    )
    np.testing.assert_allclose(ClassifierPolicy(Model(), 3, 0.0, 0.0).table(x), [[0, 0, 1]])
    square_root = np.sqrt([0.2, 0.8]) / np.sqrt([0.2, 0.8]).sum()
    np.testing.assert_allclose(
        ClassifierPolicy(Model(), 3, 2.0, 0.0).table(x)[0, [0, 2]], square_root, atol=1e-5
    )


def test_targets_share_their_logs(draw: Draw) -> None:
    first, second = (
        draw(Multiclass(dataset="iris", n_samples=50, target_epsilon=epsilon))[0]
        for epsilon in (0.1, 0.7)
    )
    for name in ("context", "action", "embedding", "reward", "propensity"):
        assert np.array_equal(getattr(first, name), getattr(second, name))


def test_a_wrong_data_set_is_told(draw: Draw, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="no data set 'digit'; did you mean 'digits'"):
        draw(Multiclass(dataset="digit"))
    with pytest.raises(UnavailableError, match="no such file"):
        draw(Multiclass(dataset=str(tmp_path / "none.csv"), label="y"))
    path = tmp_path / "t.csv"
    path.write_text("x,y\n1,a\n2,a\n")
    with pytest.raises(ParameterError, match=r"name the column of t\.csv"):
        draw(Multiclass(dataset=str(path)))
    with pytest.raises(DataFileError, match="has no column 'z'"):
        draw(Multiclass(dataset=str(path), label="z"))
    with pytest.raises(DataFileError, match="one label only, 'a'"):
        draw(Multiclass(dataset=str(path), label="y"))
    path.write_text("x,y\n1,a\n2,b\n")
    with pytest.raises(ParameterError, match="leaves no rows to evaluate on"):
        draw(Multiclass(dataset=str(path), label="y"))
    with pytest.raises(ParameterError, match="d_embedding = 9 is more than the 4 principal"):
        draw(Multiclass(dataset="iris", d_embedding=9))
