"""The quadratic regressor: its penalty is that of leave-one-out, and it holds bilinear rewards."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge, RidgeCV

from ope_bench.base.errors import UnavailableError
from ope_estimators.learning.learners import fitted, regressor
from ope_estimators.learning.quadratic import (
    MAX_PRODUCTS,
    PENALTIES,
    QuadraticRegressor,
    RidgePath,
    unit_errors,
)


def centered(k, d, seed=0):
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(k, d)) * rng.uniform(0.1, 3.0, d)
    table -= table.mean(axis=0)
    outcome = table[:, 0] - 2.0 * table[:, -1] + rng.normal(size=k)
    return table, outcome - outcome.mean()


MORE_ROWS, MORE_COLUMNS = (60, 8), (12, 30)


@pytest.mark.parametrize("shape", [MORE_ROWS, MORE_COLUMNS, (10, 10)])
def test_coefficients_solve_the_normal_equations(shape):
    table, outcome = centered(*shape)
    penalties = np.array([0.01, 3.0, 1e4])
    found = RidgePath.of(table, outcome).coefficients(penalties)
    for penalty, coefficients in zip(penalties, found.T, strict=True):
        square = table.T @ table + penalty * np.eye(shape[1])
        assert square @ coefficients == pytest.approx(table.T @ outcome, abs=1e-8)


@pytest.mark.parametrize("shape", [MORE_ROWS, MORE_COLUMNS])
def test_leave_one_out_error_is_that_of_fits_without_the_row(shape):
    table, outcome = centered(*shape)
    penalties = np.array([0.5, 20.0])
    expected = np.zeros(2)
    for j, penalty in enumerate(penalties):
        for row in range(len(table)):
            others = np.arange(len(table)) != row
            model = Ridge(penalty).fit(table[others], outcome[others])
            expected[j] += (outcome[row] - model.predict(table[[row]])[0]) ** 2 / len(table)
    found = RidgePath.of(table, outcome).leave_one_out(penalties)
    assert found == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("shape", [MORE_ROWS, MORE_COLUMNS])
def test_the_penalty_is_that_of_scikit_learn(shape):
    table, outcome = centered(*shape)
    penalties = np.array(PENALTIES)
    path = RidgePath.of(table, outcome)
    peer = RidgeCV(penalties).fit(table, outcome)
    chosen = penalties[path.leave_one_out(penalties).argmin()]
    assert chosen == peer.alpha_
    assert path.coefficients(np.array([chosen]))[:, 0] == pytest.approx(peer.coef_, abs=1e-9)


def test_a_bilinear_outcome_without_noise_is_fitted_exactly():
    rng = np.random.default_rng(0)
    x, g = rng.normal(size=(200, 3)), rng.normal(size=(200, 2))
    y = 2.0 + x[:, 0] * g[:, 1] - 3.0 * x[:, 2] * g[:, 0] + g[:, 0] + g[:, 0] ** 2
    table = np.hstack([x, g])
    model = QuadraticRegressor().fit(table[:150], y[:150])
    assert model.predict(table[150:]) == pytest.approx(y[150:], abs=1e-3)
    assert model.penalty_ == PENALTIES[0]


def test_pure_noise_is_shrunk_to_the_mean():
    rng = np.random.default_rng(1)
    spread = []
    for _ in range(20):
        table, y = rng.normal(size=(300, 6)), rng.normal(size=300)
        model = QuadraticRegressor().fit(table, y)
        spread.append(model.predict(rng.normal(size=(50, 6))).std())
    # Least squares has about sqrt(27 / 300) = 0.3.
    assert np.median(spread) < 0.1


def test_units_of_the_columns_do_not_matter():
    rng = np.random.default_rng(2)
    table = rng.normal(size=(80, 3))
    y = table[:, 0] * table[:, 1] + 0.3 * rng.normal(size=80)
    one = QuadraticRegressor().fit(table, y).predict(table)
    moved = table * np.array([10.0, 0.01, 3.0]) + np.array([5.0, -1.0, 0.0])
    assert QuadraticRegressor().fit(moved, y).predict(moved) == pytest.approx(one)


def test_constant_and_repeated_columns_are_harmless():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(50, 1))
    table = np.hstack([x, x, np.ones((50, 1)), (x > 0).astype(float)])
    predicted = QuadraticRegressor().fit(table, x[:, 0] ** 2).predict(table)
    assert predicted == pytest.approx(x[:, 0] ** 2, abs=1e-3)


def test_rows_that_come_twice_do_not_lower_the_penalty_where_units_say_so():
    rng = np.random.default_rng(4)
    table = np.repeat(rng.normal(size=(60, 8)), 2, axis=0)
    y = np.repeat(rng.normal(size=60), 2)
    unit = np.repeat(np.arange(60), 2)
    blind = regressor("quadratic", seed=0).fit(table, y).penalty_
    told = fitted(regressor("quadratic", seed=0), table, y, unit).penalty_
    assert told > 100 * blind


def test_too_many_products_are_refused_before_they_are_made():
    columns = 76
    assert columns * (columns + 3) // 2 > MAX_PRODUCTS
    with pytest.raises(UnavailableError, match="76 features have 3,002 squares and products"):
        QuadraticRegressor().fit(np.zeros((5, columns)), np.zeros(5))


@pytest.mark.parametrize("rows", [1, 2])
def test_hardly_any_rows_give_a_finite_fit(rows):
    model = QuadraticRegressor().fit(np.arange(2.0 * rows).reshape(rows, 2), np.ones(rows))
    assert model.predict(np.ones((3, 2))) == pytest.approx(np.ones(3))
    unit = np.zeros(rows, dtype=np.int64)
    assert np.isfinite(
        QuadraticRegressor().fit(np.eye(rows, 2), np.ones(rows), unit).predict([[1, 2]])
    )


@pytest.mark.parametrize("own", [0, 2, 5])
def test_all_pairs_are_predicted_as_one_by_one(own):
    table, outcome = centered(80, 5)
    model = QuadraticRegressor().fit(table, outcome)
    context, points = table[:7, :own], table[7:16, own:]
    pairs = np.hstack([np.repeat(context, 9, axis=0), np.tile(points, (7, 1))])
    assert model.everywhere(context, points) == pytest.approx(model.predict(pairs), abs=1e-12)


@pytest.mark.parametrize("shape", [MORE_ROWS, MORE_COLUMNS])
def test_the_error_of_held_out_units_is_that_of_fits_without_them(shape):
    table, outcome = centered(*shape)
    outcome += 7.0
    unit = np.random.default_rng(2).integers(0, 9, len(table)) * 3
    penalties = np.array([0.5, 20.0])
    fold = np.unique(unit, return_inverse=True)[1] % 5
    expected = np.zeros(2)
    for j, penalty in enumerate(penalties):
        for one in range(5):
            held = fold == one
            model = Ridge(penalty).fit(table[~held], outcome[~held])
            expected[j] += np.square(outcome[held] - model.predict(table[held])).sum()
    assert unit_errors(table, outcome, unit, penalties) == pytest.approx(
        expected / len(table), rel=1e-9
    )


def test_products_of_all_rows_are_made_once_for_all_folds(monkeypatch):
    table, outcome = centered(*MORE_ROWS)
    monkeypatch.setattr(RidgePath, "of", None)
    assert len(unit_errors(table, outcome, np.arange(60), np.array([1.0, 2.0]))) == 2
