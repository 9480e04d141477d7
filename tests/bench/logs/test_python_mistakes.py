"""Users' mistakes in Python: a message with the place, never an error of a library."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ope_bench import Log, UsageError

N = 8
COLUMNS = {
    "x": np.arange(N) / N,
    "a": ["u", "v"] * (N // 2),
    "r": [0.0, 1.0, 1.0, 0.0] * (N // 4),
    "p": [0.5] * N,
    "q": [0.4] * N,
}
ROUNDS: dict[str, Any] = {
    "action": np.arange(N) % 2,
    "context": np.ones((N, 2)) * np.arange(N)[:, None],
    "n_actions": 2,
    "position": None,
    "pscore": np.full(N, 0.5),
    "reward": np.arange(N) % 3 == 0,
}
RAGGED = [[0.5, 0.5]] * (N - 1) + [[1.0]]


def read(**changes: Any) -> Log:
    given: dict[str, Any] = {"context": ["x"], "action": "a", "reward": "r", "target": "q"}
    return Log.from_frame(COLUMNS, **(given | {"propensity": "p"} | changes))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"categorical": "x"}, 'categorical: "x" is no list'),
        ({"missing": "NA"}, 'missing: "NA" is no list'),
        ({"embedding": 3}, 'embedding: "3" is no list'),
        ({"target": np.full((N, 2), 0.5), "actions": 2}, 'actions: "2" is no list'),
        ({"target": np.full((N, 2), 0.5), "actions": "uv"}, 'actions: "uv" is no list'),
        ({"target": RAGGED, "actions": ["u", "v"]}, "target: .* rows differ in length"),
        ({"predicted_reward": "r", "actions": ["u", "v"]}, "predicted_reward: .* than numbers"),
        ({"reward_range": "0,1"}, "reward_range"),
        ({"reward_range": (0, 1, 2)}, "reward_range"),
        ({"reward_range": ("a", "b")}, "reward_range"),
        ({"decisions": "many"}, "decisions"),
        ({"largest_unit": "x", "unit": "x"}, "largest_unit"),
        ({"smallest_propensity": "x"}, "smallest_propensity"),
    ],
)
def test_an_argument_of_another_kind_is_named(changes: dict[str, Any], said: str) -> None:
    read()
    with pytest.raises(UsageError, match=said):
        read(**changes)


@pytest.mark.parametrize(
    ("changes", "positions", "said"),
    [
        ({"n_actions": "two"}, 1, "'n_actions'"),
        ({"n_actions": None}, 1, "'n_actions'"),
        ({"action": np.array(["a", "b"] * (N // 2))}, 1, "'action'"),
        ({"action": np.array([], dtype=int)}, 1, "'action'"),
        ({"position": ["top"] * N}, 3, "'position'"),
        ({"position": np.full(N, -1)}, 3, "'position'"),
        ({"position": np.full(N, 3)}, 3, "position: .* below 3"),
        ({"position": np.zeros(2, dtype=int)}, 3, "position: .* each round"),
        ({}, 0, "shape"),
    ],
)
def test_rounds_of_another_form_are_refused(
    changes: dict[str, Any], positions: int, said: str
) -> None:
    Log.from_frame(ROUNDS, target=np.full((N, 2, 1), 0.5))
    with pytest.raises(UsageError, match=said):
        Log.from_frame(ROUNDS | changes, target=np.full((N, 2, positions), 0.5))
