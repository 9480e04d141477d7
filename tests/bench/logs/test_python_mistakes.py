"""Users' mistakes in Python: a message with the place, never an error of a library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ope_bench import Log, UsageError, advise, estimate, shortlist

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
WRONG: dict[str, Any] = {"levels": 0.9}
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
        ({"context": [None]}, r"context: \[None\] is no Sequence"),
        ({"context": [["x"]]}, "context: .* is no Sequence"),
        ({"action": ["a"]}, "action: .* is no str"),
        ({"action": 3}, "no column '3'"),
        ({"reward": np.ones(N)}, "reward: .* is no str"),
        ({"time": True}, "time: True is no str"),
        ({"reward_range": 3}, "reward_range: 3 is no tuple"),
        ({"delimiter": "ab"}, "delimiter: 'ab'"),
        ({"delimiter": '"'}, "delimiter: "),
        ({"decimal": 5}, "decimal: 5"),
        ({"encoding": 3}, "encoding: 3"),
        ({"time_format": 3}, "time_format: 3"),
        ({"missing": [5]}, r"missing: \[5\]"),
    ],
)
def test_an_argument_of_another_kind_is_named(changes: dict[str, Any], said: str) -> None:
    read()
    with pytest.raises(UsageError, match=said):
        read(**changes)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda _: Log.read(3), "path: 3 is no str or Path"),
        (lambda _: Log.read("a" * 5000), "no such file"),
        (lambda log: estimate(log, level="95%"), "level: '95%' is no float"),
        (lambda log: estimate(log, [None]), r"estimators: \[None\]"),
        (lambda log: estimate(log, **WRONG), "estimate: .*'levels'"),
        (lambda _: estimate("log.yaml"), "log: 'log.yaml' is no LogData"),
        (lambda log: advise(log, simulate=True, worlds=3), "worlds: 3"),
        (lambda log: shortlist(log, alpha=None), "alpha: None is no float"),
    ],
)
def test_an_argument_that_no_role_has_is_named(call: Callable[[Log], Any], said: str) -> None:
    with pytest.raises(UsageError, match=said) as raised:
        call(read())
    assert "\n" not in str(raised.value)


def test_errors_of_ones_own_code_stay_as_they_are() -> None:
    def policy(_context: Any) -> Any:
        return "no array"

    def listen(_event: Any) -> None:
        raise TypeError("of the listener")

    with pytest.raises(TypeError, match="of the listener"):
        estimate(read(), ["ipw"], on_event=listen)
    with pytest.raises(UsageError, match="target"):
        read(target=policy)


def test_columns_of_an_array_without_names_are_called_by_their_numbers() -> None:
    numbered = dict(enumerate(COLUMNS.values()))
    roles: dict[str, Any] = {"context": [0], "action": 1, "reward": 2, "propensity": 3}
    log = Log.from_frame(numbered, **roles, target="4")
    assert np.array_equal(log.context, read().context)
    assert np.array_equal(log.weights("target"), read().weights("target"))


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
