"""The Behance surrogate: the published marginals, and the size of the published data."""

from __future__ import annotations

import numpy as np
import pytest

from ope_bench.base.errors import ParameterError
from ope_environments.behance.rank_size import rank_sizes
from ope_environments.behance.surrogate import Surrogate, generate, prepared_surrogate


@pytest.fixture(scope="module")
def published() -> Surrogate:
    return generate(178_788, 63_497, 1_000_000, seed=0)


def test_it_has_the_published_counts(published: Surrogate) -> None:
    users, per_user = np.unique(published.appreciates.user, return_counts=True)
    items, per_item = np.unique(published.appreciates.item, return_counts=True)
    assert (len(users), len(items), per_user.sum()) == (63_497, 178_788, 1_000_000)
    assert (per_user == 1).sum() == 15_938
    assert (per_user == 2).sum() == 8_388
    assert (per_user >= 3).sum() == 39_171
    assert np.sort(per_item)[-1] == pytest.approx(1_790, rel=0.05)
    assert np.sort(per_item)[-2] == pytest.approx(1_530, rel=0.05)
    assert per_user.max() == pytest.approx(2_270, rel=0.05)


def test_creators_make_three_in_a_thousand_appreciates(published: Surrogate) -> None:
    creator = np.isin(published.appreciates.user, published.owners.user)
    assert creator.mean() == pytest.approx(0.003, rel=0.2)


def test_owners_are_mostly_no_appreciating_users(published: Surrogate) -> None:
    owners = np.unique(published.owners.user)
    assert np.isin(owners, published.appreciates.user).mean() < 0.05
    _, times = np.unique(published.owners.item, return_counts=True)
    assert (times == 2).mean() == pytest.approx(0.02, abs=0.005)


def test_an_appreciated_item_is_more_popular_than_a_random_one(published: Surrogate) -> None:
    _, code, counts = np.unique(
        published.appreciates.item, return_inverse=True, return_counts=True
    )
    rng = np.random.default_rng(0)
    event = counts[rng.choice(code, 40_000)]
    other = rng.choice(counts, 40_000)
    auc = (event > other).mean() + 0.5 * (event == other).mean()
    # By popularity alone the published data give .737 on held-out appreciates.
    assert 0.68 < auc < 0.78


def test_features_tell_a_little_about_popularity_and_are_of_low_rank() -> None:
    prepared = prepared_surrogate(20_000, 5_000, 100_000, 1, 4)
    popularity = np.log1p(prepared.counts[0])
    design = np.column_stack([np.ones(len(popularity)), prepared.embedding])
    fitted = design @ np.linalg.lstsq(design, popularity, rcond=None)[0]
    assert 0.03 < fitted.var() / popularity.var() < 0.3
    assert 0.5 < prepared.explained.sum() < 0.9


def test_one_appreciated_item_has_no_features() -> None:
    prepared = prepared_surrogate(500, 200, 3000, 0, 4)
    assert len(prepared.item) == 499
    assert prepared.counts.sum() < 3000


def test_equal_parameters_give_equal_data_and_others_do_not() -> None:
    first = prepared_surrogate.__wrapped__(400, 100, 2000, 3, 4)
    again = prepared_surrogate.__wrapped__(400, 100, 2000, 3, 4)
    other = prepared_surrogate.__wrapped__(400, 100, 2000, 4, 4)
    assert first.fingerprint == again.fingerprint != other.fingerprint


def test_too_few_appreciates_are_refused() -> None:
    with pytest.raises(ParameterError, match="need at least 2366"):
        generate(100, 1000, 2000, 0)


@pytest.mark.parametrize(("n", "total", "least"), [(1, 5, 1), (10, 10, 1), (50, 1234, 3)])
def test_rank_sizes_fall_and_have_their_total(n: int, total: int, least: int) -> None:
    sizes = rank_sizes(n, total, least, exponent=0.8, shift=1.0)
    assert sizes.sum() == total
    assert sizes.min() >= least
    assert (np.diff(sizes) <= 0).all()
