"""Environments as tools of estimators: worlds made from the data that an estimator sees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ope_bench.base.errors import UnavailableError
from ope_bench.contracts.data import Problem
from ope_bench.contracts.plugins import Environment
from ope_bench.contracts.random import DataSeed
from ope_bench.contracts.resampling import problem_rows
from ope_bench.contracts.view import Access, FitCache, View
from ope_bench.suites.manifest import specs_of
from ope_bench.trials.trial import build

_GRANTED = {
    "propensity": Access.PROPENSITY,
    "logging_policy": Access.LOGGING_POLICY,
    "target_policy": Access.TARGET_POLICY,
    "embedding_distribution": Access.EMBEDDING_DISTRIBUTION,
}
_PLAIN = (
    "context",
    "action",
    "embedding",
    "reward",
    "schema",
    "n_actions",
    "reward_range",
    "action_embedding",
    "target_context",
    "target_action",
    "target_embedding",
)


@dataclass(frozen=True, eq=False)
class NestedEnvironment:
    """An environment that makes worlds from the data of a view.

    Parameters
    ----------
    environment : made from the view's problem.
    access : of the view; views of the worlds have the same.
    seed : of all random streams.
    """

    environment: Environment
    access: Access
    seed: int

    @classmethod
    def all_of(cls, selector: str, view: View) -> list[NestedEnvironment]:
        """Return the environments of a selector, made from a view.

        They know what the view grants and no more.

        Parameters
        ----------
        selector : a list of values is a grid.
        view : whose data worlds are made from.

        Raises
        ------
        UsageError : the selector names no environment.
        UnavailableError : the environment makes no worlds from such data.
        """
        problem = _problem_of(view)
        seed = int(view.estimator_rng("worlds").integers(2**63))
        return [
            cls(build(spec).from_problem(problem), view.access, seed)
            for spec in specs_of("environment", selector)
        ]

    def sample(self, replicate: int, device: str = "cpu") -> tuple[View, float]:
        """Return a view of one data set of a made world, and the policy's value there."""
        seed = DataSeed("made world", self.seed, replicate)
        problem, truth = self.environment.sample(
            world_rng=seed.world(), logged_rng=seed.logged(), target_rng=seed.target()
        )
        view = View(
            problem,
            self.access,
            seed=seed,
            fit_cache=FitCache(),
            device=device,
            optional=self.access,
        )
        return view, truth.expected


def _problem_of(view: View) -> Problem:
    """Return the problem that a view shows, without what it does not grant."""
    held: dict[str, Any] = dict.fromkeys((*_PLAIN, *_GRANTED, "unit", "target_unit"))
    reasons: dict[str, str] = {}
    for name in (*_PLAIN, *_GRANTED):
        if name in _GRANTED and _GRANTED[name] not in view.access:
            continue
        try:
            held[name] = getattr(view, name)
        except UnavailableError as exc:
            reasons[name] = str(exc)
    if held["embedding"] is None:
        held["embedding"] = np.zeros((view.n, 0))
    if view.has_target_sample and held["target_embedding"] is None:
        held["target_embedding"] = np.zeros((view.m, 0))
    if view.has_units:
        held["unit"] = view.unit
        if view.has_target_sample and not view.shared_contexts:
            held["target_unit"] = view.target_unit
    problem = Problem(**held, shared_contexts=view.shared_contexts, unavailable=reasons)
    # Contexts of a user's log know their rows; the constructor has made plain arrays of them.
    kept = {name: held[name] for name in ("context", "target_context", "unit", "target_unit")}
    target = np.arange(view.m) if view.has_target_sample else None
    return problem_rows(problem, np.arange(view.n), target, **kept)
