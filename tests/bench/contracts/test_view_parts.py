"""Views for nested estimators: fewer grants, other rows, data that may be missing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from ope_bench import Access, View
from ope_bench.base.errors import AccessError, UnavailableError
from ope_bench.contracts.random import DataSeed
from ope_bench.contracts.view import FitCache
from ope_bench.testing.problems import problem

ALL = Access.LOGGING_POLICY | Access.TARGET_POLICY | Access.EMBEDDING_DISTRIBUTION
GUARDED = ("propensity", "logging_policy", "target_policy", "embedding_distribution")


def view(access: Access = ALL, given: Any = None, **facts: Any) -> View:
    given = given or problem("discrete actions", n=20)
    return View(given, access, seed=DataSeed("toy", 0, 0), fit_cache=FitCache(), **facts)


@dataclass(frozen=True)
class Draw:
    """A fit that is one random number."""

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> float:
        return float(rng.normal()) + view.n


def test_a_restricted_view_withholds_the_rest_and_keeps_its_own_record():
    whole = view()
    part = whole.restricted(Access.PROPENSITY)
    assert part.propensity is whole.propensity
    for name in GUARDED[1:]:
        with pytest.raises(AccessError):
            getattr(part, name)
    assert part.violations == list(GUARDED[1:])
    assert whole.violations == []
    assert whole.target_policy is not None


def test_a_restricted_view_grants_nothing_new():
    part = view(Access.PROPENSITY)
    with pytest.raises(AccessError, match="target_policy, which it was not granted"):
        part.restricted(Access.TARGET_POLICY)
    with pytest.raises(AccessError, match="logging_policy"):
        part.restricted(Access.LOGGING_POLICY)


def test_optional_data_that_is_missing_is_unavailable_when_read():
    bare = replace(problem("discrete actions", n=20), embedding_distribution=None)
    with pytest.raises(UnavailableError):
        view(given=bare)
    found = view(given=bare, optional=Access.EMBEDDING_DISTRIBUTION)
    assert found.propensity is not None
    with pytest.raises(UnavailableError, match="the environment has no embedding_distribution"):
        found.embedding_distribution  # noqa: B018  the access is the test
    assert found.violations == []
    with pytest.raises(UnavailableError):
        found.restricted(Access.EMBEDDING_DISTRIBUTION)
    found.restricted(Access.EMBEDDING_DISTRIBUTION, optional=ALL)


def test_restricted_views_share_fits_and_charge_each_once():
    whole = view()
    first, second = (whole.restricted(Access.SAMPLES) for _ in range(2))
    assert first.fitted(Draw()) == second.fitted(Draw()) == whole.fitted(Draw())
    assert whole.shared_wall_seconds == 0.0
    cache = whole._fit_cache
    (key,) = cache.keys()
    entry = cache.get(key, lambda inner: None)
    cache.put(key, replace(entry, wall_seconds=5.0))
    later = View(problem("discrete actions", n=20), ALL, seed=DataSeed("toy", 0, 0),
                 fit_cache=cache)  # fmt: skip
    later.restricted(Access.SAMPLES).fitted(Draw())
    later.restricted(Access.SAMPLES).fitted(Draw())
    assert later.shared_wall_seconds == 5.0


def test_rows_take_every_array_and_fit_anew():
    whole = view()
    whole.fitted(Draw())
    index = np.array([3, 3, 0, 7])
    part = whole.rows(index, index)
    for name in ("context", "action", "embedding", "reward", "propensity", "unit", "fold_unit"):
        assert np.array_equal(getattr(part, name), getattr(whole, name)[index])
    for name in ("target_context", "target_action", "target_embedding", "target_unit"):
        assert np.array_equal(getattr(part, name), getattr(whole, name)[index])
    assert (part.n, part.m) == (4, 4)
    # Copies of a row are one unit.
    assert part.has_units
    assert not whole.rows(index[1:], index[1:]).has_units
    # Copies in one of the samples are enough.
    assert whole.rows(index[[0, 0]], index[1:]).has_units
    assert whole.rows(index[1:], index[[0, 0]]).has_units
    # Unless they are numbered; folds still keep them together.
    drawn = whole.rows(index, index, np.arange(4), np.arange(4))
    assert drawn.unit.tolist() == drawn.target_unit.tolist() == [0, 1, 2, 3]
    assert np.array_equal(drawn.fold_unit, part.unit)
    assert np.array_equal(drawn.target_fold_unit, part.target_unit)
    assert part.fitted(Draw()) == pytest.approx(whole.fitted(Draw()) - 16)
    assert not part.reward.flags.writeable


def test_rows_grant_no_more_and_contexts_are_shared_only_if_rows_agree():
    whole = view(Access.PROPENSITY)
    index = np.arange(5)
    part = whole.rows(index, index)
    with pytest.raises(AccessError):
        part.target_policy  # noqa: B018  the access is the test
    assert part.shared_contexts == whole.shared_contexts
    assert not whole.rows(index, index[::-1]).shared_contexts
    assert not {name for name in vars(part) if "truth" in name or "problem" in name}
