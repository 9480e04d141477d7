"""Worlds that advice makes from a log, and how like the log they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from ope_bench.base.errors import UsageError, did_you_mean
from ope_bench.contracts.arrays import FloatArray, IntArray
from ope_bench.contracts.data import Problem
from ope_bench.contracts.plugins import Estimate, Estimator
from ope_bench.contracts.view import Access, View
from ope_bench.logs.log_data import open_log
from ope_bench.logs.problem import problem_of
from ope_bench.plugins.spec import PluginSpec, complete_params
from ope_bench.suites.manifest import specs_of
from ope_bench.suites.suite import Selector, parse_selector

_ENVIRONMENT = "logs"
"""The environment that makes worlds from a log."""

MAKERS = ("pseudo-reward", "redrawn", "resample")

UNITS = "units"
"""Name of the diagnostic with the world's number of units."""

MOST_ROWS = 4000
_FOLDS = 3


WORLDS = ("pseudo-reward[reward_model=[linear,boosting]]", "redrawn", "resample[kept=0.5]")
"""Makers of the worlds of `advise --simulate`, which show errors on logs like it."""

REPLICATES = 20
"""Data sets of each world."""

WORLD_ROWS = 5000
"""Most rows of a data set."""


# Worlds.


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


def made_worlds(
    policy: str, folder: Path, given: Sequence[str] | None = None, rows: int | None = None
) -> list[World]:
    """Return the worlds to make.

    Parameters
    ----------
    policy : name of the policy to evaluate.
    folder : where the log is stored.
    rows : of a data set; None for those of the log.
    given : makers, with parameters as in a selector; by default `WORLDS`.

    Raises
    ------
    UsageError : a maker or a parameter is unknown or wrong.
    """
    found: dict[str, World] = {}
    for text in WORLDS if given is None else given:
        selector = parse_selector(text)
        maker = selector.reference
        if maker not in MAKERS:
            msg = f"unknown maker of worlds '{maker}'{did_you_mean(maker, MAKERS)}; it is one of "
            msg += ", ".join(MAKERS)
            raise UsageError(msg)
        for name in selector.params:
            # These are not the user's to set here.
            if name in ("log", "policy", "maker", "n_samples"):
                msg = f"{text}: '{name}' is that of the log; leave it out"
                raise UsageError(msg)
        params: dict[str, Any] = dict(selector.params)
        asked = {**params, "maker": maker, "log": str(folder), "policy": policy, "n_samples": rows}
        for spec in specs_of("environment", Selector(_ENVIRONMENT, asked)):
            whole = complete_params(spec.kind, spec.reference, spec.params)
            words = [maker]
            for name in params:
                value = str(whole[name])
                words.append(value if name == "reward_model" else f"{name}={value}")
            world = World(" ".join(words), maker, spec)
            found.setdefault(world.name, world)
    return list(found.values())


class Likeness(Estimator):
    """The area under the curve of a classifier between a log's rows and a made world's.

    One half where the rows cannot be told apart, one where each can. The classifier, boosted
    trees on context, action, what describes the action, and reward, is judged on rows that it was
    not trained on; rows of equal context and action stay together, since some worlds copy them.
    The diagnostic `UNITS` is the world's number of units.

    Parameters
    ----------
    folder : of the stored log.
    policy : name of the policy to evaluate.
    """

    access = Access.PROPENSITY | Access.TARGET_POLICY
    optional_access = access
    requires: ClassVar[tuple[str, ...]] = ("sklearn.ensemble",)

    folder: str = ""
    policy: str = ""

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> Self:
        """Compare the view with the log."""
        log = open_log(self.folder)
        real = problem_of(log, self.policy, np.random.default_rng(0))
        first, second = _drawn(len(real.reward), rng), _drawn(view.n, rng)
        described = real.action_embedding
        rows = np.concatenate(
            [_columns(real, first, described), _columns(view, second, described)]
        )
        made = np.repeat([0, 1], [len(first), len(second)])
        self.area_ = _area(rows, made, rng)
        return self

    def estimate(self, view: View) -> Estimate:
        """The area under the curve."""
        units = len(np.unique(view.unit))
        return Estimate(self.area_, diagnostics={UNITS: units})


def _drawn(n: int, rng: np.random.Generator) -> IntArray:
    return np.arange(n) if n <= MOST_ROWS else rng.choice(n, MOST_ROWS, replace=False)


def _columns(data: Problem | View, rows: IntArray, described: FloatArray | None) -> FloatArray:
    action = np.asarray(data.action[rows])
    parts = [np.asarray(data.context)[rows], action[:, None], data.reward[rows, None]]
    if described is not None:
        parts.insert(2, described[action])
    return np.hstack(parts)


def _area(rows: FloatArray, made: IntArray, rng: np.random.Generator) -> float:
    """Area under the curve of held-out predictions."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score

    group = np.unique(rows[:, :-1], axis=0, return_inverse=True)[1].reshape(-1)
    fold = rng.integers(_FOLDS, size=int(group.max()) + 1)[group]
    score = np.full(len(rows), 0.5)
    for held_out in range(_FOLDS):
        at = fold == held_out
        # With few contexts and actions a fold may have no rows, or all of them.
        if not at.any() or len(np.unique(made[~at])) < 2:
            continue
        model = HistGradientBoostingClassifier(max_iter=50, early_stopping=False, random_state=0)
        score[at] = model.fit(rows[~at], made[~at]).predict_proba(rows[at])[:, 1]
    return float(roc_auc_score(made, score))


LIKENESS = PluginSpec(
    "estimator",
    f"{Likeness.__module__}:{Likeness.__qualname__}",
    "likeness",
    {},
    origin="ope_bench",
)
