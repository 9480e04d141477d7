"""The plugin of tests/plugins reads as a real distribution."""

from __future__ import annotations

import configparser
import importlib.metadata
import tomllib
from collections.abc import Callable

from ope_bench.plugins.registry import registry
from ope_bench.trials.record import Trial
from support.paths import ACME


def test_its_folder_says_what_an_installation_would() -> None:
    project = tomllib.loads((ACME / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    written = configparser.ConfigParser()
    written.optionxform = str  # type: ignore[method-assign,assignment]
    written.read(ACME / "acme_ope-1.2.dist-info" / "entry_points.txt")
    groups = {name: dict(written[name]) for name in written.sections()}
    assert groups == project["entry-points"]
    (found,) = importlib.metadata.distributions(name="acme-ope", path=[str(ACME)])
    assert (found.name, found.version) == (project["name"], project["version"])


def test_its_plugins_are_found_with_their_origin(acme: Callable[..., Trial]) -> None:
    trial = acme("mean")
    assert trial.estimator.origin == "acme-ope 1.2"
    assert trial.estimator.id == "acme-mean"
    assert registry().find("estimator", "acme-ope:acme-mean").origin == "acme-ope 1.2"
