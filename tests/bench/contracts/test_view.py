"""The view shows the samples, opens what access declares, and remembers the rest."""

import gc
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest

from ope_bench import Access, PositivityViolation, Problem, Truth, View
from ope_bench.base.errors import AccessError, UnavailableError
from ope_bench.contracts import view as view_module
from ope_bench.contracts.random import DataSeed
from ope_bench.contracts.view import CachedFit, FitCache, nuisance_key
from ope_bench.testing.problems import problem

GUARDED = {
    "propensity": Access.PROPENSITY,
    "logging_policy": Access.LOGGING_POLICY,
    "target_policy": Access.TARGET_POLICY,
    "embedding_distribution": Access.EMBEDDING_DISTRIBUTION,
}


def view(access=Access.SAMPLES, fit_cache=None, device="cpu", given=None):
    given = given or problem("discrete actions", n=20)
    seed = DataSeed("toy", 0, 0)
    return View(given, access, seed=seed, fit_cache=fit_cache or FitCache(), device=device)


def test_logging_policy_implies_propensity_but_not_the_other_way_round():
    assert Access.PROPENSITY in Access.LOGGING_POLICY
    assert Access.LOGGING_POLICY not in Access.PROPENSITY


def test_a_misspelled_attribute_is_answered_with_the_granted_one_that_is_meant():
    with pytest.raises(AttributeError, match="'target_policy'"):
        _ = view().target_polcy


@pytest.mark.parametrize(
    ("access", "words"),
    [
        (Access.SAMPLES, ["samples"]),
        (Access.PROPENSITY, ["propensity"]),
        (Access.LOGGING_POLICY, ["propensity", "logging_policy"]),
        (
            Access.EMBEDDING_DISTRIBUTION | Access.TARGET_POLICY,
            ["target_policy", "embedding_distribution"],
        ),
    ],
)
def test_access_in_words(access, words):
    assert access.words() == words


@pytest.mark.parametrize("name", GUARDED)
def test_what_is_declared_is_there(name):
    given = problem("discrete actions", n=20)
    assert getattr(view(GUARDED[name], given=given), name) is getattr(given, name)


@pytest.mark.parametrize("name", GUARDED)
def test_the_rest_raises_and_is_remembered(name):
    everything = Access(0)
    for flag in GUARDED.values():
        everything |= flag
    shown = view()
    with pytest.raises(AccessError, match=f"view.{name} needs Access.{name.upper()}"):
        getattr(shown, name)
    assert shown.violations == [name]


def test_hasattr_counts_as_touching():
    shown = view()
    assert not hasattr(shown, "propensity")
    assert shown.violations == ["propensity"]


def test_a_withheld_attribute_is_not_in_the_object():
    given = problem("discrete actions", n=20)
    shown = view(given=given)
    withheld = [getattr(given, name) for name in GUARDED]
    held = list(vars(shown).values()) + list(shown._granted.values())
    assert not any(one is other for one in held for other in withheld)
    assert not any(isinstance(one, Problem | Truth) for one in gc.get_referents(vars(shown)))


def test_an_environment_without_it_makes_the_trial_unavailable():
    from dataclasses import replace

    bare = replace(problem("discrete actions", n=20), embedding_distribution=None)
    with pytest.raises(UnavailableError, match="the environment has no embedding_distribution"):
        view(Access.EMBEDDING_DISTRIBUTION, given=bare)


def test_numbers_of_rows():
    shown = view(given=problem("random embeddings", n=20))
    assert (shown.n, shown.m) == (20, 16)


@dataclass(frozen=True)
class Draw:
    """A nuisance fit that is one random number, and counts how often it is made."""

    name: str = "a"

    made = 0

    def fit(self, view, *, rng, device):
        type(self).made += 1
        return rng.random()


@dataclass(frozen=True)
class Outer:
    inner: Draw = Draw()

    def fit(self, view, *, rng, device):
        return view.fitted(self.inner) + rng.random()


@dataclass(frozen=True)
class Curious:
    def fit(self, view, *, rng, device):
        return view.target_policy


def test_equal_nuisance_specs_are_fitted_once():
    shown = view()
    before = Draw.made
    assert shown.fitted(Draw()) == shown.fitted(Draw())
    assert Draw.made == before + 1
    assert shown.fitted(Draw("b")) != shown.fitted(Draw())


def test_a_fit_found_in_the_memo_has_the_bits_of_one_made_now():
    fit_cache = FitCache()
    first = view(fit_cache=fit_cache).fitted(Outer())
    assert view(fit_cache=fit_cache).fitted(Outer()) == first
    assert view().fitted(Outer()) == first
    # Whether the inner fit was there already makes no difference either.
    warm = view()
    warm.fitted(Draw())
    assert warm.fitted(Outer()) == first


def test_arrays_of_a_shared_fit_only_read():
    fit = CachedFit(SimpleNamespace(weights=np.ones(3), name="a", none=None), 0.0, 0.0)
    with pytest.raises(ValueError, match="read-only"):
        fit.value.weights[0] = 2.0
    assert [name for name, _ in fit.held] == ["weights", "name"]


def test_a_fit_found_in_the_memo_is_charged():
    fit_cache = FitCache()
    view(fit_cache=fit_cache).fitted(Draw())
    again = view(fit_cache=fit_cache)
    again.fitted(Draw())
    assert again.shared_wall_seconds > 0


def test_the_keys_of_shared_fits_name_what_was_fitted_inner_fits_included():
    shown = view()
    assert shown.fitted_keys() == frozenset()
    shown.fitted(Outer())
    assert shown.fitted_keys() == {nuisance_key(spec, "cpu") for spec in (Outer(), Draw())}


def test_a_shared_fit_sees_samples_only_whoever_asks():
    shown = view(Access.TARGET_POLICY)
    with pytest.raises(AccessError):
        shown.fitted(Curious())
    assert shown.violations == ["target_policy"]


@dataclass(frozen=True)
class Trusted:
    """A fit for those who know the target policy."""

    access = Access.TARGET_POLICY

    def fit(self, view, *, rng, device):
        return view.target_policy, view.fitted(Draw())


@dataclass(frozen=True)
class Overreaching:
    """It names one thing and takes another."""

    access = Access.TARGET_POLICY

    def fit(self, view, *, rng, device):
        return view.logging_policy


def test_a_shared_fit_sees_what_its_class_names_and_no_more():
    both = Access.TARGET_POLICY | Access.LOGGING_POLICY
    given = problem("discrete actions", n=20)
    shown = view(both, given=given)
    assert shown.fitted(Trusted()) == (given.target_policy, view().fitted(Draw()))
    assert not shown.violations
    with pytest.raises(AccessError, match=r"view\.logging_policy"):
        shown.fitted(Overreaching())
    assert shown.violations == ["logging_policy"]


def test_a_fit_inside_another_sees_samples_only():
    @dataclass(frozen=True)
    class Leaky:
        access = Access.TARGET_POLICY

        def fit(self, view, *, rng, device):
            return view.fitted(Curious())

    shown = view(Access.TARGET_POLICY)
    with pytest.raises(AccessError):
        shown.fitted(Leaky())
    assert "target_policy" in shown.violations


@pytest.mark.parametrize("access", [Access.SAMPLES, Access.PROPENSITY])
def test_a_fit_that_knows_more_is_withheld_also_where_it_is_cached(access):
    fit_cache = FitCache()
    view(Access.TARGET_POLICY, fit_cache=fit_cache).fitted(Trusted())
    shown = view(access, fit_cache=fit_cache)
    with pytest.raises(AccessError, match=r"view\.target_policy needs Access\.TARGET_POLICY"):
        shown.fitted(Trusted())
    assert shown.violations == ["target_policy"]


def test_fits_on_different_devices_are_different():
    fit_cache = FitCache()
    assert view(fit_cache=fit_cache).fitted(Draw()) != view(
        fit_cache=fit_cache, device="cuda"
    ).fitted(Draw())


def test_a_positivity_violation_survives_pickling_with_all_it_says():
    import pickle

    told = PositivityViolation("missing", unsupported_mass=0.25, fallback=1.5)
    copy = pickle.loads(pickle.dumps(told))
    assert (str(copy), copy.unsupported_mass, copy.fallback) == ("missing", 0.25, 1.5)


def test_every_row_is_its_own_unit_where_the_problem_says_nothing():
    for world, shared in (("discrete actions", True), ("random embeddings", False)):
        shown = view(given=problem(world, n=20))
        assert shown.unit.tolist() == list(range(20))
        assert len(set(shown.target_unit)) == shown.m
        # Row i of shared contexts is one unit in both samples; other rows are strangers.
        both = set(shown.unit) & set(shown.target_unit)
        assert both == (set(shown.unit) if shared else set())
        assert not shown.has_units
        assert not shown.unit.flags.writeable
        assert not shown.target_unit.flags.writeable


def test_units_are_shown_as_the_problem_says():
    given = problem("random embeddings", n=20)
    unit, target = np.arange(20) // 3, np.arange(len(given.target_action)) // 2
    shown = view(given=replace(given, unit=unit, target_unit=target))
    assert shown.has_units
    assert shown.unit.tolist() == unit.tolist()
    assert shown.target_unit.tolist() == target.tolist()


def test_target_rows_without_units_are_in_none_of_the_logs():
    given = problem("random embeddings", n=20)
    shown = view(given=replace(given, unit=np.arange(20) // 3 - 5))
    assert len(set(shown.target_unit)) == shown.m
    assert not set(shown.unit) & set(shown.target_unit)


def test_units_of_shared_contexts_are_those_of_the_logs():
    given = problem("discrete actions", n=20)
    shown = view(given=replace(given, unit=np.arange(20) // 4))
    assert shown.target_unit.tolist() == shown.unit.tolist()


def test_reused_fits_charge_their_processor_time_and_no_more():
    """What a fit cost is charged to whoever reuses it, also inside another fit."""
    cache = FitCache()
    first, second, third = (view(fit_cache=cache) for _ in range(3))
    first.fitted(Counting())
    assert first.shared_cpu_seconds == first.shared_wall_seconds == 0.0
    key = nuisance_key(Counting(), "cpu")
    entry = cache.get(key, lambda inner: None)
    cache.put(key, replace(entry, wall_seconds=5.0, cpu_seconds=3.0))
    second.fitted(Counting())
    assert (second.shared_wall_seconds, second.shared_cpu_seconds) == (5.0, 3.0)
    third.fitted(Nested())
    assert (third.shared_wall_seconds, third.shared_cpu_seconds) == (5.0, 3.0)
    nested = cache.get(nuisance_key(Nested(), "cpu"), lambda inner: None)
    assert nested.inner == {key}
    assert 0.0 <= nested.wall_seconds < 3.0
    assert 0.0 <= nested.cpu_seconds < 2.0


def test_a_fit_inside_another_is_charged_once_whoever_asks_for_it():
    cache = FitCache()
    view(fit_cache=cache).fitted(Deep())
    for number, spec in enumerate((Counting(), Nested(), Deep())):
        key = nuisance_key(spec, "cpu")
        entry = cache.get(key, lambda inner: None)
        assert len(entry.inner) == number
        cache.put(key, replace(entry, wall_seconds=10.0**number, cpu_seconds=0.0))
    whole, by_part, outside = (view(fit_cache=cache) for _ in range(3))
    whole.fitted(Deep())
    assert whole.shared_wall_seconds == 111.0
    for spec, total in ((Nested(), 11.0), (Counting(), 11.0), (Deep(), 111.0), (Nested(), 111.0)):
        by_part.fitted(spec)
        assert by_part.shared_wall_seconds == total
    # What was found inside a fit that is made now is charged; what is made with it is not.
    outside.fitted(Deep("again"))
    assert outside.shared_wall_seconds == 11.0


class Clock:
    """Time that passes only where a fit says so, and began long ago."""

    now = 1000.0

    def perf_counter(self):
        return self.now

    process_time = perf_counter


def test_the_time_of_a_fit_is_its_own_without_the_fits_inside(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(view_module, "time", clock)

    @dataclass(frozen=True)
    class Slow:
        seconds: float
        inner: float = 0.0

        def fit(self, view, *, rng, device):
            if self.inner:
                view.fitted(Slow(self.inner))
            clock.now += self.seconds

    cache = FitCache()
    view(fit_cache=cache).fitted(Slow(1.0, 5.0))
    for spec, seconds in ((Slow(1.0, 5.0), 1.0), (Slow(5.0), 5.0)):
        entry = cache.get(nuisance_key(spec, "cpu"), lambda inner: None)
        assert entry.wall_seconds == entry.cpu_seconds == seconds
    # An inner fit that was there before took no time of the outer one.
    view(fit_cache=cache).fitted(Slow(2.0, 5.0))
    key = nuisance_key(Slow(2.0, 5.0), "cpu")
    assert cache.get(key, lambda inner: None).wall_seconds == 2.0


@dataclass(frozen=True)
class Counting:
    def fit(self, view, *, rng, device):
        return 1


@dataclass(frozen=True)
class Nested:
    def fit(self, view, *, rng, device):
        return view.fitted(Counting()) + 1


@dataclass(frozen=True)
class Deep:
    name: str = ""

    def fit(self, view, *, rng, device):
        return view.fitted(Nested()) + 1


def without_target_sample() -> Problem:
    nothing = dict.fromkeys(("target_context", "target_action", "target_embedding"))
    return replace(problem("discrete actions"), **nothing, shared_contexts=False, target_unit=None)


def view_of(given: Problem, access: Access = Access.SAMPLES) -> View:
    return View(given, access, seed=DataSeed("x", 0, 0), fit_cache=FitCache())


@pytest.mark.parametrize(
    "name", ["target_context", "target_action", "target_embedding", "target_unit", "m"]
)
def test_a_target_sample_that_is_not_there_is_unavailable(name):
    view = view_of(without_target_sample())
    assert not view.has_target_sample
    with pytest.raises(UnavailableError, match="the environment has no target sample"):
        getattr(view, name)
    assert view.reward.shape == (view.n,)


def test_the_reason_says_what_would_give_the_data():
    cure = "give `target: {table: FILE}`"
    given = replace(
        without_target_sample(),
        propensity=None,
        unavailable={"target_action": cure, "propensity": "add `propensity: COLUMN`"},
    )
    with pytest.raises(UnavailableError, match="FILE"):
        _ = view_of(given).target_action
    with pytest.raises(UnavailableError, match="propensity: COLUMN"):
        view_of(given, Access.PROPENSITY)


def test_an_attribute_with_a_reason_is_withheld_although_the_problem_has_it():
    view = view_of(replace(problem("discrete actions"), unavailable={"embedding": "no items"}))
    with pytest.raises(UnavailableError, match="no items"):
        _ = view.embedding
    assert view.has_target_sample
