"""The view shows the samples, opens what access declares, and remembers the rest."""

import gc
from dataclasses import dataclass

import pytest

from ope_bench import Access, PositivityViolation, Problem, Truth, View
from ope_bench.errors import AccessError, UnavailableError
from ope_bench.memo import Memo
from ope_bench.seeding import DataSeed
from ope_bench.testing.problems import problem

GUARDED = {
    "propensity": Access.PROPENSITY,
    "logging_policy": Access.LOGGING_POLICY,
    "target_policy": Access.TARGET_POLICY,
    "embedding_distribution": Access.EMBEDDING_DISTRIBUTION,
}


def view(access=Access.SAMPLES, memo=None, device="cpu", given=None):
    given = given or problem("discrete actions", n=20)
    seed = DataSeed("toy", 0, 0)
    return View(given, access, seed=seed, memo=memo or Memo(), device=device)


def test_logging_policy_implies_propensity_but_not_the_other_way_round():
    assert Access.PROPENSITY in Access.LOGGING_POLICY
    assert Access.LOGGING_POLICY not in Access.PROPENSITY


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
    memo = Memo()
    first = view(memo=memo).fitted(Outer())
    assert view(memo=memo).fitted(Outer()) == first
    assert view().fitted(Outer()) == first
    # Whether the inner fit was there already makes no difference either.
    warm = view()
    warm.fitted(Draw())
    assert warm.fitted(Outer()) == first


def test_a_fit_found_in_the_memo_is_charged():
    memo = Memo()
    view(memo=memo).fitted(Draw())
    again = view(memo=memo)
    again.fitted(Draw())
    assert again.shared_wall_seconds > 0


def test_a_shared_fit_sees_samples_only_whoever_asks():
    shown = view(Access.TARGET_POLICY)
    with pytest.raises(AccessError):
        shown.fitted(Curious())
    assert shown.violations == ["target_policy"]


def test_fits_on_different_devices_are_different():
    memo = Memo()
    assert view(memo=memo).fitted(Draw()) != view(memo=memo, device="cuda").fitted(Draw())


def test_a_positivity_violation_survives_pickling_with_all_it_says():
    import pickle

    told = PositivityViolation("missing", unsupported_mass=0.25, fallback=1.5)
    copy = pickle.loads(pickle.dumps(told))
    assert (str(copy), copy.unsupported_mass, copy.fallback) == ("missing", 0.25, 1.5)
