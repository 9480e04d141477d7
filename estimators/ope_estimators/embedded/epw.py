"""Embedding permutation weighting."""

from __future__ import annotations

from typing import Any

from ope_bench.data import Estimate
from ope_bench.view import View
from ope_estimators.density_ratio.calibration import Calibration
from ope_estimators.density_ratio.composition import Composition
from ope_estimators.density_ratio.settings import Clip, Folds
from ope_estimators.embedded.ratio_based import RatioBased
from ope_estimators.nuisance.learners import ClassifierName

__all__ = ["EPW"]


class EPW(RatioBased):
    """Logged rewards weighted by a ratio of embedding densities learnt from samples alone.

        V̂ = (1/n) sum_i ŵ(G_i, C_i) r_i,   ŵ = (n_0 / n_1) η̂ / (1 - η̂)

    η̂(g, c) is a classifier's probability that a pair of embedding and context comes from the
    target sample. Each row is weighted by a classifier that has not seen it. No standard error:
    that of a weighted mean leaves out the error of the ratio, which is the larger part.

    Assumptions: rewards depend on the action through its embedding only; every embedding of the
    target policy has positive density under the logging policy; the classifier is consistent.
    Fails when: the classifier is poor where target and logged embeddings differ most; its
    smoothness stands in for missing support, silently.

    Parameters
    ----------
    composition : how embedding and context become features; ``concat`` [G, C], ``tensor`` G⊗C as
        printed (which loses the context wherever it is 0), ``tensor-bias`` G⊗[1, C].
    classifier : ``logistic``, ``gbm``, ``hist-gbm``, ``xgboost``, ``mlp``, ``random-forest``, or
        an import path ``sklearn.*``.
    classifier_params : its parameters; the rest by `default_params`, which suit ratios.
    cross_fit : folds by row; 0 or 1 fits and weighs the same rows.
    calibration : of the log-odds, on held-out rows; needs folds.
    clip : the ratio is held within [1 / clip, clip]; None for no limit.

    Raises
    ------
    ParameterError : calibration without folds.

    References
    ----------
    Off-Policy Evaluation for Embedded Spaces (Lee, Arbour and Theocharous, 2022), section 4.2.
    Balanced Off-Policy Evaluation in General Action Spaces (Sondhi, Arbour and Dimmery, 2020).

    >>> from ope_bench import evaluate
    >>> record = evaluate(EPW(cross_fit=2), "saito-toy", replicates=1)[0]
    >>> 0.8 < record.diagnostics["mean_weight"] < 1.2
    True
    """

    def __init__(
        self,
        composition: Composition = "concat",
        classifier: ClassifierName = "hist-gbm",
        classifier_params: dict[str, Any] | None = None,
        cross_fit: Folds = 5,
        calibration: Calibration = "temperature",
        clip: Clip = 1e3,
    ) -> None:
        self.composition = composition
        self.classifier = classifier
        self.classifier_params = classifier_params
        self.cross_fit = cross_fit
        self.calibration = calibration
        self.clip = clip

    def estimate(self, view: View) -> Estimate:
        """The weighted mean."""
        ratio = self.ratio_
        weights = ratio.weights
        return Estimate(
            float((weights * view.reward).mean()),
            weights=weights,
            diagnostics=ratio.diagnostics,
            target_weights=ratio.target_weights,
            weight_space="embedding",
        )
