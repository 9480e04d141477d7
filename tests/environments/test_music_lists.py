"""`music-lists` on generated files of the published layout."""

import numpy as np
import pytest

from ope_bench import DataFileError, UnavailableError
from ope_environments.music_lists.environment import MusicLists
from ope_environments.music_lists.layout import read_lists
from ope_estimators.ranking.iips import IIPS
from ope_estimators.ranking.pbm_ipw import PBMIPW
from ope_estimators.ranking.sips import SIPS
from support import tiny_lists
from support.music_files import WIDTH, write_lists


def streams():
    names = ("world_rng", "logged_rng", "target_rng")
    return {name: np.random.default_rng(k) for k, name in enumerate(names)}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Lists of 2 to 5 items, logged by Plackett-Luce; and those that the target showed."""
    pytest.importorskip("pyarrow")
    made = {}
    for who, logs in (("folder", 1500), ("target_folder", 1500)):
        made[who] = str(tmp_path_factory.mktemp(who))
        write_lists(made[who], logs, by_target=who == "target_folder")
    return made


@pytest.fixture(scope="module")
def drawn(folders):
    return MusicLists(n_samples=2000, **folders).sample(**streams())


def test_rows_are_the_items_of_lists_with_sets_of_their_own(folders, drawn):
    problem, truth = drawn
    problem.check_policies()
    lists = read_lists(folders["folder"])
    number, available, slot = problem.context.astype(int).T
    np.testing.assert_array_equal(problem.slot, slot)
    np.testing.assert_array_equal(problem.action_mask.sum(axis=1), available)
    np.testing.assert_array_equal(problem.action, lists.shown[number, slot])
    np.testing.assert_array_equal(problem.reward, lists.reward[number, slot])
    np.testing.assert_array_equal(problem.propensity, lists.propensity[number, slot, slot])
    np.testing.assert_array_equal(problem.unit, number)
    assert problem.embedding.shape == (2000, WIDTH)
    assert available.min() == 2
    assert available.max() == 5
    assert 0 < truth.expected_se < 0.02


def test_estimates_by_items_at_slots_are_near_the_other_logs_mean(drawn):
    problem, truth = drawn
    for estimator in (IIPS(), PBMIPW()):
        found = tiny_lists.run(estimator, problem)
        error = np.hypot(found.standard_error, truth.expected_se)
        assert abs(found.value - truth.expected) < 4 * error
    with pytest.raises(UnavailableError, match="whole lists"):
        tiny_lists.run(SIPS(), problem)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("target_selected_actions", [0, 0], "different actions"),
        ("logging_selected_actions", [0, 9], "not among the 2"),
        ("propensities", [[1.0, 0.0]], "shape"),
        ("propensities", [[0.0, 1.0], [1.0, 0.0]], "shown"),
    ],
)
def test_a_wrong_record_is_named_by_file_and_number(tmp_path, column, value, message):
    pytest.importorskip("pyarrow")
    write_lists(str(tmp_path), 1, items=[2], **{column: [value]})
    with pytest.raises(DataFileError, match=rf"record 0: .*{message}"):
        read_lists(str(tmp_path))


def test_without_files_the_environment_says_where_they_are(tmp_path):
    with pytest.raises(UnavailableError, match="github"):
        MusicLists().sample(**streams())
    pytest.importorskip("pyarrow")
    with pytest.raises(UnavailableError, match="no parquet"):
        MusicLists(folder=str(tmp_path), target_folder=str(tmp_path)).sample(**streams())
