"""Policies over a trial's arms: shares skewed by context, and rules mixed with the shares."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ope_bench import DiscretePolicy, FloatArray, IntArray
from ope_environments.populations.rejection import tilt

__all__ = ["MixedRule", "StratumOf", "TiltedShares"]

StratumOf = Callable[[FloatArray], IntArray]
"""f(context (k, d_context)) -> (k,): each row's stratum."""


class TiltedShares(DiscretePolicy):
    """The trial's shares, skewed by context: proportional to share(a|x) exp(skew score(x, a)).

    The score is private: it predicts the outcome.

    Parameters
    ----------
    share : (n_strata, n_arms), each arm's probability in the trial.
    stratum_of : a context's stratum.
    score : f(context (k, d_context)) -> (k, n_arms).
    skew : how much; 0 gives the shares.
    """

    def __init__(
        self,
        share: FloatArray,
        stratum_of: StratumOf,
        score: Callable[[FloatArray], FloatArray],
        skew: float,
    ) -> None:
        super().__init__(share.shape[1])
        self.full_support = bool((share > 0).all())
        self.share, self.skew = share, skew
        self._stratum_of, self._score = stratum_of, score

    def table(self, context: FloatArray) -> FloatArray:
        """Return the probabilities of a chunk: (k, n_arms)."""
        return tilt(self.share[self._stratum_of(context)], self._score(context), self.skew)


class MixedRule(DiscretePolicy):
    """One arm in each context, mixed with the trial's shares.

        (1 - epsilon) 1{a = rule(x)} + epsilon share(a|x)

    Parameters
    ----------
    share : (n_strata, n_arms), each arm's probability in the trial.
    stratum_of : a context's stratum.
    rule : f(context (k, d_context), share (k, n_arms)) -> (k,), an arm that has a share there.
    epsilon : weight of the shares.
    """

    def __init__(
        self,
        share: FloatArray,
        stratum_of: StratumOf,
        rule: Callable[[FloatArray, FloatArray], IntArray],
        epsilon: float,
    ) -> None:
        super().__init__(share.shape[1])
        self.share, self.epsilon = share, epsilon
        self._stratum_of, self._rule = stratum_of, rule

    def table(self, context: FloatArray) -> FloatArray:
        """Return the probabilities of a chunk: (k, n_arms)."""
        share = self.share[self._stratum_of(context)]
        table: FloatArray = self.epsilon * share
        table[np.arange(len(context)), self._rule(context, share)] += 1.0 - self.epsilon
        return table
