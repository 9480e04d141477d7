"""Inverse propensity weighting with both policies estimated from samples."""

from __future__ import annotations

from typing import Annotated, Literal, Self

import numpy as np
from annotated_types import Gt

from ope_bench import (
    Estimate,
    FloatArray,
    PositivityViolation,
    View,
)
from ope_estimators.actions.weighting.intervals import IntervalOptions
from ope_estimators.actions.weighting.weighted_mean import clipped, never_logged
from ope_estimators.learning import learners
from ope_estimators.nuisance.classifier_based import ClassifierBased
from ope_estimators.nuisance.policy import PolicyModel, too_many_actions

__all__ = ["IPWStar"]


class IPWStar(IntervalOptions, ClassifierBased):
    """Importance weighting when both policies are known by their actions only.

        V̂ = (1/n) sum_i ŵ_i r_i,   ŵ_i = π̂1(a_i|x_i) / π̂0(a_i|x_i)

    π̂0 is a classifier of the logged actions by context, π̂1 one of the target sample's.
    No standard error: that of a weighted mean would overlook both fits. The bootstrap does not.

    Assumptions: the classifier's family holds both policies; every action of the target sample
    was logged.
    Fails when: there are many actions for the rows: some actions of the target sample were never
    logged, π̂0 is 0 there, and their rewards were never seen.

    Parameters
    ----------
    classifier : a classifier's name.
    classifier_params : its parameters.
    on_missing : an action of the target sample that was never logged is missing support.
        ``fail`` raises PositivityViolation; ``zero`` leaves its share of the value out;
        ``laplace`` gives every action a pseudo-count in both policies, which shrinks the weights
        but cannot bring back rewards that nobody saw.
    laplace : the pseudo-count.
    clip : largest weight; larger ones are cut.
    interval : ``bootstrap``, an interval, with both policies fitted anew on each resample of
        units; ``asymptotic``, none.
    level : of the bootstrap interval.
    resamples : number of bootstrap samples.

    Raises
    ------
    PositivityViolation : with ``fail``; its mass is the share of the target sample whose action
        was never logged, its fallback what ``zero`` gives, but for so many actions that no
        classifier of them can be fitted.
    UnavailableError : actions are continuous, or too many for a classifier.

    References
    ----------
    Off-Policy Evaluation for Embedded Spaces (Lee, Arbour and Theocharous, 2022), definition of
    the IPW* estimator.

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> from ope_environments.saito.toy import SaitoToy
    >>> record = evaluate(IPWStar(), SaitoToy(n_actions=300), replicates=1)[0]
    >>> record.status.value, record.estimate, record.observed_unsupported_mass > 0
    ('positivity', None, True)
    """

    on_missing: Literal["fail", "zero", "laplace"] = "fail"
    laplace: Annotated[float, Gt(0)] = 1.0
    clip: Annotated[float, Gt(0)] | None = None

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> Self:
        """Fit both policies; other estimators may share the fits."""
        missing = never_logged(view)
        samples = view.action, view.target_action
        if missing and self.on_missing == "fail" and too_many_actions(*samples):
            raise PositivityViolation(_message(missing), unsupported_mass=missing)
        params = learners.frozen(self.classifier_params)
        self.logging_ = view.fitted(PolicyModel("logged", self.classifier, params))
        self.target_ = view.fitted(PolicyModel("target", self.classifier, params))
        return self

    def estimate(self, view: View) -> Estimate:
        """The weighted mean, or PositivityViolation."""
        missing = never_logged(view)
        weights, diagnostics = clipped(self._ratio(view), self.clip)
        value = self._value(weights, view.reward, missing)
        if missing and self.on_missing == "fail":
            message = _message(missing)
            raise PositivityViolation(message, unsupported_mass=missing, fallback=value)
        diagnostics["unsupported_mass"] = missing
        interval = self._bootstrap(view) if self.interval == "bootstrap" else None
        return Estimate(
            value, None, weights, diagnostics, weight_space="action", interval=interval
        )

    def _value(self, weights: FloatArray, reward: FloatArray, missing: float | None) -> float:
        return float((weights * reward).mean())

    def _ratio(self, view: View) -> FloatArray:
        count = self.laplace if self.on_missing == "laplace" else 0.0
        target = self.target_.probability(view.context, view.action, laplace=count)
        logging = self.logging_.probability(view.context, view.action, laplace=count)
        # A forest can give a logged action probability 0; that row then says nothing.
        return np.divide(target, logging, out=np.zeros(view.n), where=logging > 0)


def _message(missing: float) -> str:
    return (
        f"{missing:.1%} of the target sample takes actions that were never logged; "
        "on_missing=zero or laplace gives an estimate all the same"
    )
