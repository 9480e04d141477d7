from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ope_bench import registry as registries
from ope_bench.registry import Plugin

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Cli


def test_everything_installed_is_listed_in_80_columns(cli: Cli) -> None:
    said = cli("list")
    assert said.code == 0
    for word in ("saito-toy", "gaussian", "ipw-star", "epws-paper", "quick", "paper-actions"):
        assert f"  {word}" in said.out
    assert all(len(line) <= 80 for line in said.out.splitlines())


def test_a_listing_is_one_json_document(cli: Cli) -> None:
    listed = cli("list", "estimators", "--format", "json").json
    assert set(listed) == {"schema", "estimators"}
    (ipw,) = [row for row in listed["estimators"] if row["id"] == "ipw"]
    assert ipw["origin"].startswith("ope-bench 0.")
    assert ipw["summary"]
    assert ipw["broken"] is None


@pytest.fixture
def odd_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken plugin and a namesake of a built-in."""
    real = registries.registry()

    class Odd(registries.Registry):
        def plugins(self, kind: registries.Kind) -> list[Plugin]:
            extra = [
                Plugin("estimator", "ipw", "acme:ipw", "acme 1.2", "ope_bench.nowhere:IPW"),
                Plugin("estimator", "lost", "acme:lost", "acme 1.2", "ope_bench.errors:Lost"),
            ]
            return [*real.plugins(kind), *(extra if kind == "estimator" else [])]

    odd = Odd()
    monkeypatch.setattr(registries, "registry", lambda: odd)


@pytest.mark.usefixtures("odd_plugins")
def test_broken_plugins_and_namesakes_are_told(cli: Cli) -> None:
    listed = cli("list", "estimators", "--format", "json").json["estimators"]
    broken = {row["reference"]: row["broken"] for row in listed if row["broken"]}
    assert "ModuleNotFoundError" in broken["acme:ipw"]
    assert "AttributeError" in broken["acme:lost"]
    ambiguous = {row["reference"] for row in listed if row["ambiguous"]}
    assert ambiguous == {"acme:ipw", "ope-bench:ipw"}
    text = cli("list", "estimators").out
    assert "estimators (acme 1.2)" in text
    assert "BROKEN: AttributeError" in text
    said = cli("show", "ipw")
    assert said.code == 2
    assert "is ambiguous: " in said.err


@pytest.mark.parametrize("name", ["epws", "saito-toy", "quick", "ope-bench:ipw"])
def test_a_page_fits_80_columns(cli: Cli, name: str) -> None:
    said = cli("show", name)
    assert said.code == 0
    assert name.rpartition(":")[2] in said.out
    assert all(len(line) <= 80 for line in said.out.splitlines())


def test_a_page_tells_parameters_access_and_source(cli: Cli) -> None:
    shown = cli("show", "ipw", "--format", "json").json
    assert shown["kind"] == "estimator"
    assert {"name": "clip", "type": "float > 0 | None", "default": "None"} in shown["parameters"]
    assert shown["access"] == ["propensity", "target_policy"]
    assert shown["source"].endswith("ipw.py")
    shown = cli("show", "saito-toy", "--format", "json").json
    assert shown["version"] == 1
    assert shown["parameters"][-1]["name"] == "worlds"


def test_a_suite_tells_what_it_would_run(cli: Cli) -> None:
    shown = cli("show", "paper-failures", "--format", "json").json
    assert shown["trials"] == shown["cells"] * shown["replicates"]
    assert "saito-toy[n_actions=1000,n_samples=500]" in shown["environments"]


def test_a_class_in_a_file_can_be_shown(cli: Cli, tiny: Callable[[str], str]) -> None:
    said = cli("show", tiny("Average"))
    assert said.code == 0
    assert "k : int >= 1, default 1" in said.out
    assert cli("show", tiny("Coins"), "--format", "json").json["version"] == 3
