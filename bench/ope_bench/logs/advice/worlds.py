"""The worlds that are made from a log, as settings of an environment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ope_bench.errors import UsageError, did_you_mean
from ope_bench.logs.advice.settings import advice_settings
from ope_bench.plugins.resolution import complete_params
from ope_bench.plugins.spec import PluginSpec
from ope_bench.suites.manifest import settings
from ope_bench.suites.selector import Selector, parse_selector

__all__ = ["MAKERS", "World", "made_worlds"]

ENVIRONMENT = "logs"
"""The environment that makes worlds from a log."""

MAKERS = ("pseudo-reward", "redrawn", "resample")

_OURS = ("log", "policy", "maker", "n_samples")
"""Parameters that are not the user's to set here."""


@dataclass(frozen=True)
class World:
    """A world made from a log.

    Parameters
    ----------
    name : its maker and what distinguishes it.
    maker : what it keeps of the log.
    spec : its environment.
    """

    name: str
    maker: str
    spec: PluginSpec


def made_worlds(policy: str, folder: Path, given: Sequence[str] | None = None) -> list[World]:
    """Return the worlds to make.

    Parameters
    ----------
    policy : name of the policy to evaluate.
    folder : where the log is stored.
    given : makers, with parameters as in a selector; by default those of the shipped settings.

    Raises
    ------
    UsageError : a maker or a parameter is unknown or wrong.
    """
    found: dict[str, World] = {}
    for text in advice_settings().worlds if given is None else given:
        selector = parse_selector(text)
        maker = selector.reference
        if maker not in MAKERS:
            msg = f"unknown maker of worlds '{maker}'{did_you_mean(maker, MAKERS)}; it is one of "
            msg += ", ".join(MAKERS)
            raise UsageError(msg)
        for name in selector.params:
            if name in _OURS:
                msg = f"{text}: '{name}' is that of the log; leave it out"
                raise UsageError(msg)
        params: dict[str, Any] = dict(selector.params)
        asked = {**params, "maker": maker, "log": str(folder), "policy": policy, "n_samples": None}
        for spec in settings("environment", Selector(ENVIRONMENT, asked)):
            whole = complete_params(spec.kind, spec.reference, spec.params)
            told = (_format_parameter(name, whole[name]) for name in params)
            world = World(" ".join((maker, *told)), maker, spec)
            found.setdefault(world.name, world)
    return list(found.values())


def _format_parameter(name: str, value: object) -> str:
    return str(value) if name == "reward_model" else f"{name}={value}"
