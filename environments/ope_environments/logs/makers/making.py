"""Makers of worlds by name, kept in memory with their fits."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from ope_bench import stream
from ope_environments.logs.makers.pseudo_reward import PseudoReward
from ope_environments.logs.makers.redrawn import Redrawn
from ope_environments.logs.makers.resample import Resample
from ope_environments.logs.makers.source import Source
from ope_environments.logs.reward_names import RewardName

__all__ = ["Maker", "MakerName", "make", "maker_of_file"]

MakerName = Literal["redrawn", "pseudo-reward", "resample"]

Maker = PseudoReward | Redrawn | Resample


def make(
    source: Source,
    name: MakerName,
    *,
    reward_model: RewardName,
    ridge: float,
    by_context: bool,
    kept: float,
    toward: float | None = None,
) -> Maker:
    """Return the maker of a name.

    Parameters
    ----------
    source : the log.
    reward_model, ridge : of ``pseudo-reward`` and ``redrawn``.
    by_context : of ``redrawn``: whether a fitted logging policy depends on the context.
    kept, toward : of ``resample``.
    """
    if name == "pseudo-reward":
        return PseudoReward(source, reward_model, ridge)
    if name == "resample":
        return Resample(source, kept, toward)
    return Redrawn(source, reward_model, ridge, by_context)


def maker_of_file(path: str, policy: str | None, name: MakerName, **settings: Any) -> Maker:
    """Return the maker of a name for a log file; what was made before is kept.

    Parameters
    ----------
    path : the log file.
    policy : name of the policy to evaluate; the only one where None.
    name, settings : as for `make`.
    """
    from ope_bench import Log  # imports scipy, which a list of plugins need not wait for

    state = tuple((file, Path(file).stat().st_mtime_ns) for file in Log.files(path))
    return _maker(path, state, policy, name, tuple(sorted(settings.items())))


@lru_cache(maxsize=1)
def _source(path: str, _state: object, policy: str | None) -> Source:
    from ope_bench import Log  # imports scipy, which a list of plugins need not wait for

    # All worlds of a log have the same target sample, where one is drawn. Predictions that the log
    # gives are of its own rewards.
    problem = Log.read(path).problem(policy, stream("logs", "target sample"))
    # The constructor of a problem would make plain contexts, which do not know their rows.
    object.__setattr__(problem, "predicted_reward", None)
    return Source(problem)


@lru_cache(maxsize=8)
def _maker(
    path: str,
    state: object,
    policy: str | None,
    name: MakerName,
    settings: tuple[tuple[str, Any], ...],
) -> Maker:
    return make(_source(path, state, policy), name, **dict(settings))
