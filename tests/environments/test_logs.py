"""`logs`: fitted worlds against samples, models against formulas, mistakes by row and column."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ope_bench import DataFileError
from ope_bench.base.errors import DataError, ParameterError, UnavailableError
from ope_bench.contracts.data import Column, Problem, Truth
from ope_environments.logs.decisions import EXAMPLE, LogColumns, read_decisions
from ope_environments.logs.environment import Logs
from ope_environments.logs.logging_model import fit_logging
from ope_environments.logs.reward_model import fit_linear
from ope_environments.populations.design import Design

Draw = Callable[..., tuple[Problem, Truth]]

SETTINGS: list[dict[str, Any]] = [
    {},
    {"target": "softmax", "reward_model": "boosting"},
    {"logging_model": "shares", "propensity": None, "embedding": "", "categorical": "device"},
    {"reward": "price", "embedding": (), "categorical": ("device",), "shared_contexts": True},
]

OWN: dict[str, Any] = {
    "context": "age, city",
    "categorical": "city, kind",
    "action": "offer",
    "reward": "paid",
    "propensity": "p",
    "embedding": "kind",
}

ROWS = [
    "age,city,offer,kind,p,paid",
    "30,Oslo,a,x,0.5,0",
    "41,Bergen,b,y,0.25,12.5",
    "28,Oslo,b,y,0.5,3",
    "55,Oslo,a,x,0.5,1",
    "33,Bergen,c,x,0.25,0",
]


def own(folder: Path, rows: list[str] = ROWS) -> str:
    path = folder / "decisions.csv"
    path.write_text("\n".join(rows))
    return str(path)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_target_rewards_scatter_around_the_value(
    check: SimpleNamespace, draw: Draw, settings: dict[str, Any]
) -> None:
    truths = [draw(Logs(n_samples=2000, **settings), 0, k, k)[1] for k in range(15)]
    check.scatter_around_the_value(truths)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_weighted_logs_have_the_value_as_their_mean(
    check: SimpleNamespace, draw: Draw, settings: dict[str, Any]
) -> None:
    problem, truth = draw(Logs(n_samples=20_000, **settings))
    check.weigh_to_the_value(problem, truth)


def test_a_table_of_ones_own_is_read_by_its_column_names(draw: Draw, tmp_path: Path) -> None:
    problem, _ = draw(Logs(path=own(tmp_path), n_samples=200, **OWN))
    assert problem.n_actions == 3
    assert problem.schema is not None
    assert problem.schema.context == (Column(), Column("categorical", (0.0, 1.0)))
    assert problem.action_embedding is not None
    assert problem.action_embedding.tolist() == [[0.0], [1.0], [0.0]]
    assert set(np.unique(problem.context[:, 0])) <= {28, 30, 33, 41, 55}


def test_parquet_and_csv_give_the_same_world(draw: Draw, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    import pyarrow.csv
    import pyarrow.parquet as pq

    path = own(tmp_path)
    pq.write_table(pyarrow.csv.read_csv(path), tmp_path / "decisions.parquet")
    problems = [
        draw(Logs(path=one, n_samples=50, **OWN))
        for one in (path, str(tmp_path / "decisions.parquet"))
    ]
    assert problems[0][1] == problems[1][1]
    assert np.array_equal(problems[0][0].reward, problems[1][0].reward)


def test_rewards_are_zero_or_one_only_where_the_tables_are(draw: Draw, tmp_path: Path) -> None:
    binary, _ = draw(Logs(n_samples=500))
    assert set(np.unique(binary.reward)) == {0.0, 1.0}
    paid, _ = draw(Logs(path=own(tmp_path), n_samples=500, **OWN))
    assert len(np.unique(paid.reward)) == 500


def test_the_linear_model_is_a_ridge_an_action_on_what_a_common_ridge_leaves() -> None:
    data = example()
    design = Design(data.columns, data.context)
    model = fit_linear(data, design, 7.0)
    X, K = design(data.context), 7.0 * np.eye(design.width)
    common = np.linalg.inv(X.T @ X + K) @ X.T @ data.reward
    mine = data.action == 4
    left = data.reward[mine] - X[mine] @ common
    own_part = np.linalg.inv(X[mine].T @ X[mine] + K) @ X[mine].T @ left
    np.testing.assert_allclose(model.weights[4], common + own_part, rtol=1e-8)


def example() -> Any:
    columns = LogColumns(
        ("age", "visits", "device"), "offer", "bought", "propensity", ("price",), ("device",)
    )
    return read_decisions(None, columns)


def test_the_logging_model_is_as_sharp_as_the_logged_propensities() -> None:
    from dataclasses import replace

    data = example()
    design = Design(data.columns, data.context)
    plain = fit_logging(replace(data, propensity=None), design, by_context=True)
    said = plain.probability(data.context, data.action)
    assert plain.beta == 1.0
    # Propensities of a model twice as sharp are matched by doubling the inverse temperature.
    plain.beta = 2.0
    sharper = plain.probability(data.context, data.action)
    matched = fit_logging(replace(data, propensity=sharper), design, by_context=True)
    assert matched.beta == pytest.approx(2.0, rel=1e-3)
    assert np.corrcoef(np.log(said), np.log(data.propensity))[0, 1] > 0.8


def test_targets_share_their_logs(draw: Draw) -> None:
    first, second = (draw(Logs(n_samples=50, target=t))[0] for t in ("softmax", "epsilon-greedy"))
    for name in ("context", "action", "embedding", "reward", "propensity"):
        assert np.array_equal(getattr(first, name), getattr(second, name))


def test_a_design_refuses_codes_that_it_does_not_know() -> None:
    design = Design((Column("categorical", (0.0, 1.0)),), np.array([[0.0], [1.0]]))
    with pytest.raises(DataError, match=r"context\[1, 0\] = 2.0 is not one of its categories"):
        design(np.array([[0.0], [2.0]]))


@pytest.mark.parametrize(
    ("at", "row", "said"),
    [
        (
            2,
            "41,Bergen,b,y,0,1",
            "line 3, column 'p': 0 is not positive, but the action was logged",
        ),
        (2, "41,Bergen,b,y,1.5,1", "line 3, column 'p': 1.5 is not within -inf to 1"),
        (
            2,
            "old,Bergen,b,y,0.5,1",
            "line 3, column 'age': 'old' is not a finite number",
        ),
        (2, "41,Bergen,b,y,0.5,much", "line 3, column 'paid': 'much' is not a finite number"),
        (3, "28,Oslo,b,x,0.5,3", "line 4, column 'kind': differs from line 3, which has the same"),
        (4, "55,Oslo,a", "line 5: 3 fields; the header names 6 columns"),
        (0, "age,town,offer,kind,p,paid", "has no column 'city'"),
    ],
)
def test_a_mistake_is_answered_by_row_and_column(
    draw: Draw, tmp_path: Path, at: int, row: str, said: str
) -> None:
    rows = [*ROWS[:at], row, *ROWS[at + 1 :]]
    with pytest.raises(DataFileError) as caught:
        draw(Logs(path=own(tmp_path, rows), **OWN))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"action": "age"}, "column 'age' is named twice"),
        ({"categorical": "town"}, "categorical column 'town' is in neither"),
        ({"context": "", "categorical": ""}, "name at least one context column"),
    ],
)
def test_columns_that_contradict_one_another_are_refused(
    draw: Draw, settings: dict[str, Any], said: str
) -> None:
    with pytest.raises(ParameterError, match=said):
        draw(Logs(**settings))


def test_a_single_action_is_no_decision(draw: Draw, tmp_path: Path) -> None:
    rows = [ROWS[0], ROWS[1], ROWS[4]]
    with pytest.raises(DataFileError, match="one action only, 'a'"):
        draw(Logs(path=own(tmp_path, rows), **OWN))


def test_a_missing_table_is_unavailable(draw: Draw, tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="no such file"):
        draw(Logs(path=str(tmp_path / "none.csv"), **OWN))


def test_the_example_ships_and_numbers_from_it_say_so() -> None:
    assert EXAMPLE.is_file()
    assert Logs().origin_note == "the invented example"
    assert Logs(path="x.csv").origin_note == ""


def test_a_decision_is_a_unit_and_is_drawn_once_where_there_are_enough(draw: Draw) -> None:
    problem, _ = draw(Logs(n_samples=1000))
    assert len({*problem.unit, *problem.target_unit}) == 2000
    problem, _ = draw(Logs(n_samples=3000))
    assert len(set(problem.unit)) < 2000
    rows = np.column_stack([problem.unit, problem.context])
    assert len(np.unique(rows, axis=0)) == len(set(problem.unit))
