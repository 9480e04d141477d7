"""A plugin gains a parameter: stored trials stay valid, and nothing else changes its meaning."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from ope_bench import Environment, Estimate, Estimator, params
from ope_bench.contracts.parameters import added_defaults, without_added_defaults
from ope_bench.plugins.spec import PluginSpec, complete_params, distinct_labels, resolve
from ope_bench.report.content import sweeps
from ope_bench.suites.manifest import selects, specs_of
from ope_bench.suites.suite import parse_selector, selector_of
from ope_bench.testing import estimator_checks
from ope_bench.testing.checks import check_added_parameters_are_parameters
from ope_bench.trials.record import Trial
from ope_bench.trials.trial import build

BEFORE = """
from ope_bench import Estimate, Estimator, params

@params
class Mean(Estimator):
    '''The mean.'''

    clip: float = 2.0

    def estimate(self, view):
        return Estimate(0.0)
"""

AFTER = BEFORE.replace(
    "    clip: float = 2.0",
    "    added_parameters = {'normalize': False, 'sizes': [1, 2]}\n"
    "    clip: float = 2.0\n"
    "    normalize: bool = False\n"
    "    sizes: tuple[int, ...] = (1, 2)",
)


@pytest.fixture
def versions(tmp_path: Path) -> tuple[str, str]:
    """References of a plugin before and after it gained two parameters."""
    references = []
    for folder, text in (("before", BEFORE), ("after", AFTER)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "plugin.py").write_text(text, encoding="utf-8")
        references.append(f"{tmp_path / folder / 'plugin.py'}:Mean")
    return references[0], references[1]


def key(reference: str, **given: object) -> str:
    environment = resolve("environment", "saito-toy")
    return Trial(environment, resolve("estimator", reference, given), 3, seed=7).key


def test_keys_stay_while_added_parameters_have_the_value_from_before(versions):
    before, after = versions
    assert key(after) == key(before)
    assert key(after, normalize=False, sizes=[1, 2]) == key(before)
    assert key(after, clip=3.0) == key(before, clip=3.0)
    other = {key(before), key(after, normalize=True), key(after, sizes=[1]), key(after, clip=3.0)}
    assert len(other) == 4


def test_a_spec_without_the_parameter_builds_the_same_object(versions):
    _, after = versions
    for given in ({}, {"normalize": False}, {"normalize": True}, {"sizes": [4]}):
        spec = resolve("estimator", after, given)
        stored = json.loads(json.dumps(dict(spec.params)))
        assert resolve("estimator", after, stored).params == spec.params
        built = build(spec).get_params()
        assert built["normalize"] is given.get("normalize", False)
        assert list(built["sizes"]) == given.get("sizes", [1, 2])


def test_labels_and_selectors_name_the_parameter_only_where_it_is_not_the_default(versions):
    _, after = versions
    plain, both = specs_of("estimator", f"{after}[normalize=[false,true]]")
    assert distinct_labels([plain, both]) == ["mean", "mean normalize=true"]
    assert parse_selector(selector_of(plain)).params == {}
    assert parse_selector(selector_of(both)).params == {"normalize": True}


def test_selectors_find_settings_by_an_added_parameter_at_its_default(versions):
    before, after = versions
    plain, both = specs_of("estimator", f"{after}[normalize=[false,true]]")
    for wanted, found in (("false", plain), ("true", both)):
        selector = parse_selector(f"{after}[normalize={wanted}]")
        assert [spec for spec in (plain, both) if selects(selector, spec)] == [found]
    assert not selects(parse_selector("mean[normalize=false]"), resolve("estimator", before))


def test_a_plugin_that_is_not_installed_adds_nothing():
    assert complete_params("estimator", "no-such-plugin", {"a": 1}) == {"a": 1}


@params
class Base(Estimator):
    """With one added parameter."""

    added_parameters: ClassVar = {"depth": 1}
    depth: int = 1

    def estimate(self, view):
        return Estimate(0.0)


@params
class Further(Base):
    """Lists only its own addition."""

    added_parameters: ClassVar = {"flag": False}
    flag: bool = False


@params
class Moved(Further):
    """Its default is no longer the value from before."""

    depth: int = 2


def test_a_subclass_lists_only_its_own_additions():
    assert added_defaults(Further) == {"depth": 1, "flag": False}
    assert without_added_defaults(Further, {"depth": 1, "flag": True}) == {"flag": True}


def test_a_value_that_is_no_longer_the_default_stays_in_keys():
    assert added_defaults(Moved) == {"flag": False}
    assert without_added_defaults(Moved, {"depth": 1, "flag": False}) == {"depth": 1}
    assert without_added_defaults(Moved, {"depth": 2, "flag": False}) == {"depth": 2}


def test_false_is_not_zero():
    assert without_added_defaults(Further, {"depth": 1, "flag": 0}) == {"flag": 0}


@params
class Misspelled(Base):
    """Names no parameter."""

    added_parameters: ClassVar = {"dept": 1}


@params
class OutOfRange(Base):
    """Names a value that the parameter refuses."""

    added_parameters: ClassVar = {"depth": "deep"}


@pytest.mark.parametrize("cls", [Misspelled, OutOfRange])
def test_the_conformance_check_catches_additions_that_are_no_parameters(cls):
    outcomes = {one.name: one for one in estimator_checks(cls()).outcomes()}
    wrong = outcomes[check_added_parameters_are_parameters.__name__]
    assert wrong.bad
    assert "'dept" in wrong.message


class Shifted(Environment):
    """An environment with an added parameter."""

    added_parameters: ClassVar = {"offset": 0.0}

    def __init__(self, n_samples: int = 10, offset: float = 0.0) -> None:
        self.n_samples = n_samples
        self.offset = offset

    def sample(self, *, world_rng, logged_rng, target_rng):
        raise NotImplementedError


def test_a_sweep_over_an_added_parameter_includes_its_default(monkeypatch):
    plugin = SimpleNamespace(cls=Shifted)
    monkeypatch.setattr(
        "ope_bench.plugins.spec.registry",
        lambda: SimpleNamespace(find=lambda kind, reference: plugin),
    )
    boards = [
        SimpleNamespace(
            environment="shifted",
            spec=PluginSpec(
                "environment",
                "shifted",
                "shifted",
                without_added_defaults(Shifted, {"n_samples": 10, "offset": at}),
                version=1,
            ),
            truth="expected",
        )
        for at in (2.0, 0.0, 1.0)
    ]
    stubs: Any = [SimpleNamespace(board=board) for board in boards]
    found = sweeps(stubs)
    assert [(one.parameter, one.at) for one in found] == [
        ("offset", ((0.0, 1), (1.0, 2), (2.0, 0)))
    ]
