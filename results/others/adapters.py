"""Estimators of other packages: each calls the package, and computes nothing itself.

    pip install --no-deps vw-estimators==0.1.1 coba==8.1.0 offline-evaluation==0.0.6
    ope-bench run results/others/others.yaml --store others.sqlite
    ope-bench export --store others.sqlite --to results/others/answers.parquet

Those of the Open Bandit Pipeline are the extra `obp`, in an environment of its own:

    pip install -e '.[obp]'
    ope-bench run results/others/others-obp.yaml --store obp.sqlite
    ope-bench export --store obp.sqlite --to results/others/answers-obp.parquet

What is committed lacks the columns `origin` and `reference`, which name folders of a machine.
vw-estimators 0.1.1 is by the authors of Vowpal Wabbit (its module is `estimators`), coba 8.1.0 by
Mark Rucker, offline-evaluation 0.0.6 by the authors of banditml (its module is `ope`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ope_bench import Access, Estimate, Estimator, View

KNOWN = Access.PROPENSITY | Access.TARGET_POLICY


def _target(view: View) -> Any:
    return view.target_policy.probability(view.context, view.action)


def _by_rows(view: View, estimator: Any) -> Estimate:
    """Hand a log to an estimator of vw-estimators row by row."""
    for p_log, r, p_pred in zip(
        view.propensity.tolist(), view.reward.tolist(), _target(view).tolist(), strict=True
    ):
        estimator.add_example(p_log, r, p_pred)
    return Estimate(float(estimator.get()))


class VwIps(Estimator):
    """vw-estimators 0.1.1: `bandits.ips`."""

    access = KNOWN

    def estimate(self, view: View) -> Estimate:
        """Call the package."""
        from estimators.bandits import ips

        return _by_rows(view, ips.Estimator())


class VwSnips(Estimator):
    """vw-estimators 0.1.1: `bandits.snips`."""

    access = KNOWN

    def estimate(self, view: View) -> Estimate:
        """Call the package."""
        from estimators.bandits import snips

        return _by_rows(view, snips.Estimator())


class VwMle(Estimator):
    """vw-estimators 0.1.1: `bandits.mle`, empirical likelihood."""

    access = KNOWN

    def estimate(self, view: View) -> Estimate:
        """Call the package."""
        from estimators.bandits import mle

        return _by_rows(view, mle.Estimator())


class VwCressieRead(Estimator):
    """vw-estimators 0.1.1: `bandits.cressieread`, empirical likelihood of Cressie and Read."""

    access = KNOWN

    def estimate(self, view: View) -> Estimate:
        """Call the package."""
        from estimators.bandits import cressieread

        return _by_rows(view, cressieread.Estimator())


class CobaIps(Estimator):
    """coba 8.1.0: `OpeRewards("IPS")`, the target's expected reward in each row."""

    access = KNOWN

    def estimate(self, view: View) -> Estimate:
        """Call the package."""
        from coba.environments.filters import OpeRewards

        rows = [
            {"context": None, "action": a, "reward": r, "probability": p}
            for a, r, p in zip(
                view.action.tolist(), view.reward.tolist(), view.propensity.tolist(), strict=True
            )
        ]
        told = OpeRewards("IPS").filter(rows)
        terms = [
            p * one["rewards"](one["action"])
            for p, one in zip(_target(view).tolist(), told, strict=True)
        ]
        return Estimate(float(np.mean(terms)))


class _Row(Mapping[int, float]):
    """Probabilities of a row's actions, of which the package asks for the logged one."""

    def __init__(self, action: int, probability: float) -> None:
        self.told = {action: probability}

    def __getitem__(self, action: int) -> float:
        return self.told[action]

    def __iter__(self) -> Any:
        return iter(self.told)

    def __len__(self) -> int:
        return len(self.told)


class OfflineIps(Estimator):
    """offline-evaluation 0.0.6: `ope.methods.inverse_propensity_scoring`."""

    access = KNOWN

    def estimate(self, view: View) -> Estimate:
        """Call the package."""
        import pandas as pd
        from ope.methods import inverse_propensity_scoring

        rows = [
            _Row(*one) for one in zip(view.action.tolist(), _target(view).tolist(), strict=True)
        ]
        log = pd.DataFrame(
            {
                "context": range(view.n),
                "action": view.action,
                "reward": view.reward,
                "action_prob": view.propensity,
            }
        )
        told = inverse_propensity_scoring.evaluate(log, lambda row: rows[int(row)])
        return Estimate(float(told["expected_reward_new_policy"]["mean"]))
