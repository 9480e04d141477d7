"""Embedding permutation weighting."""

from __future__ import annotations

from ope_bench import Estimate, View
from ope_estimators.embedded.learned.ratio_based import RatioBased

__all__ = ["EPW"]


class EPW(RatioBased):
    """Logged rewards weighted by a ratio of embedding densities learned from samples alone.

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
    composition : how embedding and context become features; ``concat`` [G, C] as printed;
        ``tensor`` G⊗C, printed for `FEPW` alone (which loses the embedding wherever the context
        is 0); ``tensor-bias`` G⊗[1, C].
    classifier : ``logistic``, ``gbm``, ``hist-gbm``, ``xgboost``, ``mlp``, ``random-forest``, or
        an import path, for example into ``sklearn``.
    classifier_params : its parameters; the rest by `default_params`, which suit ratios.
    cross_fit : folds by row; 0 or 1 fits and weighs the same rows.
    calibration : of the log-odds, on held-out rows; needs folds.
    clip : the ratio is held within [1 / clip, clip]; None for no limit.
    ratio : ``classifier``, or weights fitted to both samples without one: ``riesz``, ``rulsif``,
        ``kliep``, ``kmm``, ``entropy`` or ``energy``, as those estimators have them by default.
        They are fitted on all rows; classifier, folds and calibration then play no part, and a
        negative weight becomes the smallest that the clip allows, or 0 without a clip.

    Raises
    ------
    ParameterError : calibration without folds.
    PositivityViolation : ``entropy``, where no weights balance the means.
    UnavailableError : ``kmm`` or ``energy`` on more than 100,000 rows in a sample.

    References
    ----------
    Off-Policy Evaluation for Embedded Spaces (Lee, Arbour and Theocharous, 2022), section 3.2.
    Balanced Off-Policy Evaluation in General Action Spaces (Sondhi, Arbour and Dimmery, 2020).

    >>> from ope_bench import evaluate
    >>> record = evaluate(EPW(cross_fit=2), "saito-toy", replicates=1)[0]
    >>> 0.8 < record.diagnostics["mean_weight"] < 1.2
    True
    """

    def estimate(self, view: View) -> Estimate:
        """Return the weighted mean."""
        ratio = self.ratio_
        weights = ratio.weights
        return Estimate(
            float((weights * view.reward).mean()),
            weights=weights,
            diagnostics=ratio.diagnostics,
            target_weights=ratio.target_weights,
            weight_space="embedding",
        )
