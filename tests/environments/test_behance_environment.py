"""`behance`: the closed-form truth against a count by hand and against samples."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ope_bench import DataFileError, Tabular
from ope_bench.base.errors import ParameterError, UnavailableError
from ope_bench.contracts.data import Problem, Truth
from ope_environments.behance.environment import Behance
from ope_environments.behance.policies import creator_code, epsilon_top
from ope_environments.behance.preparation import prepare, read_raw
from ope_environments.behance.prepared import load, save
from ope_environments.behance.surrogate import prepared_surrogate
from support import behance_files

Draw = Callable[..., tuple[Problem, Truth]]

SMALL = {"items": 300, "users": 200, "appreciates": 3000}
TARGETS: list[dict[str, Any]] = [
    {},
    {"epsilon": 0.9, "creator_probability": 0.2},
    {"target": "top-k", "top_k": 7, "epsilon": 0.0},
    {"target": "top-k", "top_k": 10_000},
    {"target": "popularity", "target_beta": 1.7, "beta": 0.6},
]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("raw")
    behance_files.write(folder)
    save(prepare(read_raw(folder), 2), folder / "behance.npz")
    return folder / "behance.npz"


def test_the_value_is_the_papers_formula(
    draw: Draw,
    file: Path,
) -> None:
    items = sorted(behance_files.FEATURES)
    creators = {user for _, user in behance_files.OWNERS}
    counts = np.zeros((2, len(items)))
    for user, item in behance_files.APPRECIATES:
        if item in items:
            counts[int(user in creators), items.index(item)] += 1
    mean = (0.1 * counts / counts.max(axis=1, keepdims=True)).mean()
    _, truth = draw(Behance(prepared=str(file), n_samples=50))
    assert truth.expected == pytest.approx(0.9 * 0.1 + 0.1 * mean, abs=1e-15)
    assert truth.expected_se == 0.0


@pytest.mark.parametrize("settings", TARGETS, ids=str)
def test_target_rewards_scatter_around_the_value(
    check: SimpleNamespace, draw: Draw, settings: dict[str, Any]
) -> None:
    world = Behance(n_samples=20_000, max_probability=0.8, **SMALL, **settings)
    truths = [draw(world, 0, k, k)[1] for k in range(20)]
    check.scatter_around_the_value(truths)


@pytest.mark.parametrize("settings", TARGETS, ids=str)
def test_weighted_logs_have_the_value_as_their_mean(
    check: SimpleNamespace, draw: Draw, settings: dict[str, Any]
) -> None:
    world = Behance(n_samples=200_000, max_probability=0.8, **SMALL, **settings)
    problem, truth = draw(world)
    check.weigh_to_the_value(problem, truth)


def test_targets_share_their_logs(draw: Draw) -> None:
    problems = [
        draw(Behance(n_samples=500, shared_contexts=False, **SMALL, target=target))[0]
        for target in ("epsilon-greedy", "top-k", "popularity")
    ]
    for other in problems[1:]:
        for name in ("context", "action", "embedding", "reward", "propensity"):
            assert np.array_equal(getattr(problems[0], name), getattr(other, name))


def test_replicates_are_independent_of_one_another(draw: Draw) -> None:
    world = Behance(n_samples=4000, **SMALL)
    first, second = draw(world, 0, 1, 1)[0], draw(world, 0, 2, 2)[0]
    same = (first.action == second.action).mean()
    assert same < 3.0 / 300
    assert abs(np.corrcoef(first.context[:, 0], second.context[:, 0])[0, 1]) < 0.08


def test_the_first_of_tied_items_is_greedy() -> None:
    counts = np.array([[0, 2, 5, 5], [3, 0, 0, 3]])
    np.testing.assert_allclose(
        epsilon_top(counts, 1, 0.2), [[0.05, 0.05, 0.85, 0.05], [0.85, 0.05, 0.05, 0.05]]
    )
    np.testing.assert_allclose(epsilon_top(counts, 3, 0.0)[1], [1 / 3, 1 / 3, 0, 1 / 3])


def test_sums_over_actions_are_those_of_the_whole_table() -> None:
    rng = np.random.default_rng(0)
    table = rng.dirichlet(np.ones(37), size=2)
    policy = Tabular(table, creator_code)
    context = rng.integers(2, size=(90, 1)).astype(float)
    value = rng.normal(size=(2, 37))
    expected = policy.expect(context, lambda x, a: value[x[:, 0].astype(int), a])
    code = context[:, 0].astype(int)
    np.testing.assert_allclose(expected, (table * value).sum(axis=1)[code], rtol=1e-12)


def test_no_appreciates_by_creators_mean_no_reward_in_their_context(
    draw: Draw,
    tmp_path: Path,
) -> None:
    behance_files.write(tmp_path, packed=False)
    owners = b"01588231 7\n00485000 8\n"
    (tmp_path / "Behance_Item_to_Owners.gz").write_bytes(owners)
    save(prepare(read_raw(tmp_path), 2), tmp_path / "p.npz")
    world = Behance(prepared=str(tmp_path / "p.npz"), max_probability=1.0, n_samples=3000)
    problem, _ = draw(world)
    creators = problem.context[:, 0] == 1
    assert problem.reward[creators].sum() == 0
    assert problem.reward[~creators].sum() > 0


def test_numbers_say_which_data_they_come_from(file: Path) -> None:
    assert Behance().origin_note == (
        "surrogate (items=178,788, users=63,497, appreciates=1,000,000, seed=0)"
    )
    note = Behance(prepared=str(file)).origin_note
    assert note.startswith("raw files")
    assert load(str(file)).fingerprint[:12] in note


def test_a_fingerprint_ties_results_to_the_content_of_a_file(draw: Draw, file: Path) -> None:
    fingerprint = load(str(file)).fingerprint
    draw(Behance(prepared=str(file), fingerprint=fingerprint[:10], n_samples=10))
    with pytest.raises(ParameterError, match=r"has fingerprint .*, not 0000"):
        draw(Behance(prepared=str(file), fingerprint="0000", n_samples=10))
    with pytest.raises(ParameterError, match="fingerprint is given without prepared"):
        draw(Behance(fingerprint="0000"))


def test_a_missing_prepared_file_is_unavailable(draw: Draw, tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match=r"cseweb\.ucsd\.edu"):
        draw(Behance(prepared=str(tmp_path / "none.npz")))


@pytest.mark.parametrize("kept", [0, 10, 900])
def test_a_damaged_prepared_file_is_one_clear_line(
    draw: Draw, tmp_path: Path, file: Path, kept: int
) -> None:
    path = tmp_path / "cut.npz"
    path.write_bytes(file.read_bytes()[:kept])
    with pytest.raises(
        DataFileError, match="is not a prepared Behance file, or damaged"
    ) as caught:
        draw(Behance(prepared=str(path)))
    assert "\n" not in str(caught.value)


def test_an_altered_prepared_file_is_refused(draw: Draw, tmp_path: Path, file: Path) -> None:
    path = tmp_path / "altered.npz"
    with np.load(file) as archive:
        arrays = dict(archive)
    arrays["counts"] = arrays["counts"] + 1
    np.savez_compressed(path, **arrays)
    with pytest.raises(DataFileError, match="does not match its fingerprint"):
        draw(Behance(prepared=str(path)))


def test_a_file_that_holds_pickles_is_refused(draw: Draw, tmp_path: Path) -> None:
    path = tmp_path / "pickle.npz"
    np.savez(path, about=np.array([{}], dtype=object))
    with pytest.raises(DataFileError, match="is not a prepared Behance file"):
        draw(Behance(prepared=str(path)))


def test_a_failed_save_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = prepared_surrogate(100, 60, 600, 0, 2)
    path = tmp_path / "p.npz"
    save(prepared, path)
    before = path.read_bytes()

    def full(*args: object, **kwargs: object) -> None:
        stream = args[0]
        stream.write(b"half")  # type: ignore[attr-defined]
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez_compressed", full)
    with pytest.raises(DataFileError, match=r"p\.npz: cannot be written: No space left"):
        save(prepared_surrogate(120, 60, 600, 0, 2), path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["p.npz"]


def test_a_bootstrap_takes_rows_of_one_data_set_with_replacement(draw: Draw) -> None:
    world: dict[str, Any] = {**SMALL, "n_samples": 400, "target": "popularity"}
    one, truth = draw(Behance(bootstrap=3, **world), logged=1)
    other, again = draw(Behance(bootstrap=3, **world), logged=2)
    apart, _ = draw(Behance(bootstrap=4, **world), logged=1)
    assert truth == again
    assert truth.expected == draw(Behance(**world))[1].expected

    def actions(problem: Problem) -> dict[int, set[tuple[int, int]]]:
        """The actions, logged and target, of each row of the data set that was drawn."""
        found: dict[int, set[tuple[int, int]]] = {}
        assert problem.unit is not None
        pairs = zip(problem.unit, problem.action, problem.target_sample[1], strict=True)
        for unit, action, target in pairs:
            found.setdefault(int(unit), set()).add((int(action), int(target)))
        return found

    first, second, third = map(actions, (one, other, apart))
    for found in (first, second):
        # A share 1/e of the rows is not drawn; copies of a row are equal.
        assert 0.55 < len(found) / 400 < 0.72
        assert all(len(copies) == 1 for copies in found.values())
    assert first.keys() != second.keys()
    assert all(first[unit] == second[unit] for unit in first.keys() & second.keys())
    assert any(first[unit] != third[unit] for unit in first.keys() & third.keys())
    assert np.array_equal(one.context, one.target_sample[0])


def test_a_bootstrap_of_two_samples_draws_each_alone(draw: Draw) -> None:
    problem, _ = draw(Behance(bootstrap=0, n_samples=200, shared_contexts=False, **SMALL))
    assert problem.unit is not None
    assert problem.target_unit is not None
    assert set(problem.unit).isdisjoint(problem.target_unit)
    assert len(set(problem.unit)) < 150
    assert len(set(problem.target_unit)) < 150
