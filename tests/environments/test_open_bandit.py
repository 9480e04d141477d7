"""`open-bandit` on tiny files in the published layout."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ope_bench import DataFileError
from ope_bench.base.errors import ParameterError, UnavailableError
from ope_bench.contracts.data import Problem, Truth
from ope_bench.testing import NotApplicable, environment_checks
from ope_environments.open_bandit.click_model import ClickModel
from ope_environments.open_bandit.environment import OpenBandit
from ope_environments.open_bandit.layout import read_campaign
from ope_estimators.ranking.iips import IIPS
from ope_estimators.ranking.pi import PI
from ope_estimators.ranking.sips import SIPS
from support import tiny_lists

Draw = Callable[..., tuple[Problem, Truth]]

N_ITEMS, N_ROWS = 6, 4000
HEADER = (
    ",timestamp,item_id,position,click,propensity_score,user_feature_0,user_feature_1,"
    "user_feature_2,user_feature_3,user-item_affinity_0\n"
)


def write_log(folder: Path, policy: str, rng: np.random.Generator, n_rows: int = N_ROWS) -> None:
    bts = policy == "bts"
    shares = np.array([0.4, 0.3, 0.15, 0.1, 0.04, 0.01]) if bts else np.full(N_ITEMS, 1 / N_ITEMS)
    item = rng.choice(N_ITEMS, n_rows, p=shares)
    lines = [HEADER]
    for k in range(n_rows):
        click = int(rng.random() < 0.05 + 0.1 * (item[k] == 2))
        features = ",".join(f"h{rng.integers(2 + j + bts)}" for j in range(4))
        propensity = f"{shares[item[k]]:.6f}"
        lines.append(
            f"{k},2019-11-24 00:00:{k % 60:02d}+00:00,{item[k]},{1 + k % 3},{click},{propensity},"
            f"{features},0.0\n"
        )
    (folder / "all.csv").write_text("".join(lines))
    items = "".join(f"{k},{k},{-0.5 + 0.1 * k},a{k % 3},b{k % 2},c0\n" for k in range(N_ITEMS))
    header = ",item_id,item_feature_0,item_feature_1,item_feature_2,item_feature_3\n"
    (folder / "item_context.csv").write_text(header + items)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("obd")
    rng = np.random.default_rng(0)
    for policy in ("random", "bts"):
        (root / policy / "all").mkdir(parents=True)
        write_log(root / policy / "all", policy, rng)
    return root


MODES: list[dict[str, Any]] = [
    {},
    {"logging": "random"},
    {"mode": "semi-synthetic"},
    {"mode": "semi-synthetic", "logging": "random", "click_rate": 0.3},
    {"mode": "semi-synthetic", "redraw_actions": True, "target": "epsilon-greedy"},
]


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_it_conforms(folder: Path, mode: dict[str, Any]) -> None:
    # Few rows beside those of the log, since resampled ones follow it and not its policy.
    world = OpenBandit(folder=str(folder), n_samples=400, **mode)
    for name, check in environment_checks(world):
        if "fresh_process" in name:
            continue
        try:
            check()
        except NotApplicable:
            continue


def test_the_truth_is_the_random_policys_mean_click_and_its_standard_error(
    draw: Draw, folder: Path
) -> None:
    lines = (folder / "random" / "all" / "all.csv").read_text().splitlines()[1:]
    clicks = np.array([int(line.split(",")[4]) for line in lines])
    _, truth = draw(OpenBandit(folder=str(folder), n_samples=100))
    assert truth.expected == pytest.approx(clicks.mean())
    assert truth.expected_se == pytest.approx(clicks.std(ddof=1) / math.sqrt(len(clicks)))


def test_the_random_log_is_halved_so_that_logs_and_truth_are_independent(
    draw: Draw, folder: Path
) -> None:
    lines = (folder / "random" / "all" / "all.csv").read_text().splitlines()[1:]
    clicks = np.array([int(line.split(",")[4]) for line in lines])
    problem, truth = draw(OpenBandit(folder=str(folder), logging="random", n_samples=40_000))
    assert truth.expected == pytest.approx(clicks[1::2].mean())
    error = clicks.std() / math.sqrt(40_000)
    assert abs(problem.reward.mean() - clicks[::2].mean()) < 4 * error


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_a_row_of_the_log_is_a_unit(draw: Draw, folder: Path, mode: dict[str, Any]) -> None:
    problem, _ = draw(OpenBandit(folder=str(folder), n_samples=6000, **mode))
    unit, target_unit = problem.unit, problem.target_unit
    assert unit is not None
    assert target_unit is not None
    assert len(set(unit)) < 6000
    kept = [problem.context]
    if not mode.get("redraw_actions"):
        kept.append(problem.action[:, None].astype(float))
    if mode.get("mode") != "semi-synthetic":
        kept.append(problem.reward[:, None])
        # The target sample is of another log.
        assert not set(unit) & set(target_unit)
    rows = np.column_stack([*kept, unit])
    assert len(np.unique(rows, axis=0)) == len(set(unit))


def test_logged_propensities_stay_as_they_were_logged(draw: Draw, folder: Path) -> None:
    problem, _ = draw(OpenBandit(folder=str(folder), n_samples=500))
    shares = np.array([0.4, 0.3, 0.15, 0.1, 0.04, 0.01])
    assert problem.propensity is not None
    np.testing.assert_allclose(problem.propensity, shares[problem.action])
    assert problem.logging_policy is None


def test_codes_mean_the_same_in_both_logs(folder: Path) -> None:
    campaign = read_campaign(str(folder), "all")
    # Word h0 has code 0 in both, and bts has one word more in each column.
    for k in range(4):
        assert set(np.unique(campaign.random.context[:, k])) <= set(
            np.unique(campaign.bts.context[:, k])
        )


def test_redrawn_clicks_have_the_exact_value_as_their_mean(draw: Draw, folder: Path) -> None:
    world = OpenBandit(
        folder=str(folder), mode="semi-synthetic", redraw_actions=True, n_samples=100_000
    )
    problem, truth = draw(world)
    assert problem.propensity is not None
    weighted = problem.reward / problem.propensity / N_ITEMS
    assert truth.expected_se == 0.0
    error = weighted.std() / math.sqrt(len(weighted))
    assert abs(weighted.mean() - truth.expected) < 4 * error


def log_odds_by_newton(design: np.ndarray, click: np.ndarray) -> np.ndarray:
    """Ridge logistic regression by Newton's method: the last column is the free intercept."""
    penalty = np.append(np.ones(design.shape[1] - 1), 0.0)
    weights = np.zeros(design.shape[1])
    for _ in range(30):
        rate = 1 / (1 + np.exp(-design @ weights))
        slope = design.T @ (rate - click) + penalty * weights
        curve = (design * (rate * (1 - rate))[:, None]).T @ design + np.diag(penalty)
        weights -= np.linalg.solve(curve, slope)
    return weights


@pytest.mark.parametrize("logging", ["random", "bts"])
@pytest.mark.parametrize("target", ["uniform", "epsilon-greedy"])
def test_the_value_of_the_population_is_that_of_another_computation(
    draw: Draw, folder: Path, logging: str, target: str
) -> None:
    file = folder / logging / "all" / "all.csv"
    lines = [line.split(",") for line in file.read_text().splitlines()[1:]]
    # Users' four features, the position and the item, as indicators.
    columns = [[line[k] for line in lines] for k in (6, 7, 8, 9, 3, 2)]
    parts = [np.equal.outer(np.array(one), sorted(set(one))).astype(float) for one in columns]
    users, items = np.concatenate(parts[:5], axis=1), parts[5]
    design = np.concatenate([users, items, np.ones((len(lines), 1))], axis=1)
    weights = log_odds_by_newton(design, np.array([float(line[4]) for line in lines]))
    of_user = users @ weights[: users.shape[1]] + weights[-1]
    of_item = weights[users.shape[1] : -1]
    rate = 1 / (1 + np.exp(-(of_user[:, None] + of_item)))
    policy = np.full(N_ITEMS, (0.1 if target == "epsilon-greedy" else 1.0) / N_ITEMS)
    policy[of_item.argmax()] += 1 - policy.sum()
    _, truth = draw(
        OpenBandit(
            folder=str(folder),
            logging=logging,  # type: ignore[arg-type]
            target=target,  # type: ignore[arg-type]
            mode="semi-synthetic",
            redraw_actions=True,
            n_samples=10,
        )
    )
    # scikit-learn's solver stops where mean gradients are below 1e-4: so far the mean of all rows
    # may be off, and, as every item has a sixth of the rows, six times as far that of one item.
    error = 1e-4 if target == "uniform" else 6e-4
    assert truth.expected == pytest.approx((rate @ policy).mean(), abs=error)
    assert truth.expected_se == 0.0


def test_a_model_is_moved_to_the_click_rate_that_is_asked_for(draw: Draw, folder: Path) -> None:
    model = ClickModel(np.array([-3.0, 0.0, 1.0]), np.array([0.5, -0.5]), np.zeros(3)).with_mean(
        0.2
    )
    assert model.mean() == pytest.approx(0.2, abs=1e-9)
    world = OpenBandit(folder=str(folder), mode="semi-synthetic", click_rate=0.3, n_samples=10)
    assert draw(world)[1].expected == pytest.approx(0.3, abs=1e-9)


def test_what_resampled_logs_cannot_tell_is_refused(draw: Draw, folder: Path) -> None:
    for settings in ({"redraw_actions": True}, {"click_rate": 0.1}, {"target": "epsilon-greedy"}):
        with pytest.raises(ParameterError, match="need mode = 'semi-synthetic'"):
            draw(OpenBandit(folder=str(folder), **settings))  # type: ignore[arg-type]


def test_without_data_it_is_unavailable_with_the_pip_line(draw: Draw, tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match=r"pip install --no-deps obp==0\.4\.1"):
        draw(OpenBandit(folder=str(tmp_path)))


def test_an_installed_sample_is_found_without_importing_its_package(
    draw: Draw, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "obp"
    (package / "dataset").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    (package / "dataset" / "obd").symlink_to(folder)
    monkeypatch.syspath_prepend(tmp_path)
    problem, _ = draw(OpenBandit(n_samples=50))
    assert problem.n_actions == N_ITEMS


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("position", "4", "line 3, column 'position': 4 is not within 1 to 3"),
        ("click", "0.5", "line 3, column 'click': 0.5 is not a whole number"),
        ("item_id", "6", "line 3, column 'item_id': 6 is not within 0 to 5"),
        (
            "propensity_score",
            "0",
            "line 3, column 'propensity_score': a logged action has no mass",
        ),
        ("click", "yes", "line 3, column 'click': 'yes' is not a finite number"),
    ],
)
def test_a_damaged_log_is_named_by_line_and_column(
    draw: Draw, tmp_path: Path, column: str, value: str, said: str
) -> None:
    rng = np.random.default_rng(1)
    for policy in ("random", "bts"):
        (tmp_path / policy / "all").mkdir(parents=True)
        write_log(tmp_path / policy / "all", policy, rng, 300)
    path = tmp_path / "bts" / "all" / "all.csv"
    lines = path.read_text().splitlines()
    fields = lines[2].split(",")
    fields[HEADER.strip().split(",").index(column)] = value
    lines[2] = ",".join(fields)
    path.write_text("\n".join(lines))
    with pytest.raises(DataFileError) as caught:
        draw(OpenBandit(folder=str(tmp_path)))
    assert said in str(caught.value)


def test_pages_are_lists_of_three_with_an_exact_value(draw: Draw, folder: Path) -> None:
    setting = {"mode": "semi-synthetic", "redraw_actions": True, "target": "epsilon-greedy"}
    made = OpenBandit(n_samples=60_000, folder=str(folder), lists=True, click_rate=0.2, **setting)
    problem, truth = draw(made)
    problem.check_policies()
    assert problem.slot is not None
    np.testing.assert_array_equal(problem.slot[:4], [0, 1, 2, 0])
    assert truth.empirical == pytest.approx(truth.expected, abs=4 * 0.4 / np.sqrt(60_000))
    assert problem.prefix_propensity is not None
    assert problem.joint_propensity is not None
    np.testing.assert_array_equal(problem.joint_propensity[0], problem.prefix_propensity[2])
    product = problem.propensity[:3].prod()  # type: ignore[index]
    assert problem.joint_propensity[0, 0] == pytest.approx(product)
    for estimator in (IIPS(), PI(), SIPS()):
        found = tiny_lists.run(estimator, problem)
        assert found.standard_error is not None
        assert abs(found.value - truth.expected) < 4 * found.standard_error


def test_rows_of_one_time_and_user_are_one_page(draw: Draw, folder: Path) -> None:
    rows, _ = draw(OpenBandit(n_samples=500, folder=str(folder)))
    pages, _ = draw(OpenBandit(n_samples=500, folder=str(folder), lists=True))
    np.testing.assert_array_equal(rows.context, pages.context)
    np.testing.assert_array_equal(pages.slot, rows.context[:, 4] - 1)
    assert pages.unit is not None
    assert rows.unit is not None
    assert len(np.unique(pages.unit)) <= len(np.unique(rows.unit))
    # Rows of the same row of the log stay one unit.
    for number in np.unique(rows.unit)[:20]:
        assert len(np.unique(pages.unit[rows.unit == number])) == 1
