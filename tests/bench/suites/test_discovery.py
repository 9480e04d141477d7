from __future__ import annotations

import sys
from importlib.metadata import EntryPoint, distributions
from pathlib import Path

import pytest

from ope_bench.base.errors import SuiteError
from ope_bench.suites import suite as catalogue
from ope_bench.suites.manifest import plan

SHIPPED = [suite.id for suite in catalogue.suite_files() if suite.origin.startswith("ope-bench ")]


@pytest.fixture
def acme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A distribution with suites of its own, put on the path without an install."""
    package = tmp_path / "acme_suites"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "night.yaml").write_text(
        "schema: 1\ntitle: 'At night'\nenvironments: [gaussian]\nestimators: [ipw]\n"
    )
    info = tmp_path / "acme_ope-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-ope\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(
        "[ope_bench.suites]\nacme = acme_suites\nlost = acme_nowhere\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "acme_suites", raising=False)
    return tmp_path


def _points(path: Path) -> list[EntryPoint]:
    (found,) = [one for one in distributions(path=[str(path)]) if one.name == "acme-ope"]
    return list(found.entry_points)


def test_suites_of_a_plugin_are_found_and_broken_ones_are_told(acme: Path) -> None:
    (suite,), (broken,) = catalogue.scan(_points(acme))
    assert (suite.id, suite.reference, suite.origin) == ("night", "acme-ope:night", "acme-ope 1.2")
    assert suite.title == "At night"
    assert catalogue.read_suite(suite.path, suite.id).name == "night"
    assert (broken.id, broken.origin) == ("lost", "acme-ope 1.2")
    assert "acme_nowhere" in broken.reason


def test_suites_of_one_name_are_ambiguous_until_their_distribution_is_named(
    acme: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (night,), _ = catalogue.scan(_points(acme))
    twin = catalogue.SuiteFile("night", "beta:night", "beta 2", night.path)
    monkeypatch.setattr(catalogue, "suite_files", lambda: (night, twin))
    with pytest.raises(SuiteError, match=r"acme-ope:night \(acme-ope 1.2\) and beta:night"):
        catalogue.find_suite("night")
    assert catalogue.find_suite("beta:night").name == "night"


def test_a_path_is_a_suite_too(acme: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = acme / "acme_suites" / "night.yaml"
    assert catalogue.find_suite(str(path)).title == "At night"
    with pytest.raises(SuiteError, match="cannot read suite"):
        catalogue.find_suite("no/such.yaml")
    with pytest.raises(SuiteError, match="unknown suite 'quik'; did you mean 'quick'"):
        catalogue.find_suite("quik")


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_suite_has_a_title_and_can_be_planned(name: str) -> None:
    suite = catalogue.find_suite(name)
    assert 0 < len(suite.title) <= 90
    assert plan(suite).cells


def test_the_suites_that_are_promised_are_there() -> None:
    promised = "quick ci full paper-actions paper-samples paper-failures"
    promised += " paper-appendix-actions paper-appendix-samples"
    assert set(promised.split()) <= set(SHIPPED)


def test_full_names_every_environment_and_estimator_that_is_built_in() -> None:
    from ope_bench.plugins.registry import GROUPS, registry

    suite = catalogue.find_suite("full")
    for kind, entries in zip(GROUPS, (suite.environments, suite.estimators), strict=True):
        named = {entry.selector.reference for entry in entries}
        ours = registry().plugins(kind)
        ids = {plugin.id for plugin in ours if plugin.origin.startswith("ope-bench ")}
        # Adapters need the package that they adapt.
        assert named == {one for one in ids if not one.startswith("obp/")}
