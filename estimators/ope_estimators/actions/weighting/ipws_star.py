"""Self-normalized inverse propensity weighting with both policies estimated from samples."""

from __future__ import annotations

from ope_bench import FloatArray
from ope_estimators.actions.weighting.ipw_star import IPWStar
from ope_estimators.actions.weighting.weighted_mean import self_normalized_mean

__all__ = ["IPWSStar"]


class IPWSStar(IPWStar):
    """`IPWStar` with weights that sum to one.

        V̂ = sum_i ŵ_i r_i / sum_i ŵ_i,   ŵ_i = π̂1(a_i|x_i) / π̂0(a_i|x_i)

    Assumptions: as for `IPWStar`.
    Fails when: as `IPWStar`; and where all weights are zero, which is a PositivityViolation
    whatever ``on_missing`` says. With ``zero``, the target policy is restricted to the actions
    that were logged.

    Parameters
    ----------
    classifier : a classifier's name.
    classifier_params : its parameters.
    on_missing : ``fail``, ``zero`` or ``laplace``; as for `IPWStar`.
    laplace : the pseudo-count.
    clip : largest weight; larger ones are cut.
    interval, level, resamples : as for `IPWStar`.

    References
    ----------
    The self-normalized estimator for counterfactual learning (Swaminathan and Joachims, 2015).
    """

    def _value(self, weights: FloatArray, reward: FloatArray, missing: float | None) -> float:
        return self_normalized_mean(weights, reward, unsupported_mass=lambda: missing)
