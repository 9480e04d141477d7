"""Propensities that are estimated from the logs, where the logging policy is not known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from annotated_types import Ge

from ope_bench import (
    Access,
    Estimator,
    FloatArray,
    IntArray,
    ParameterError,
    UnavailableError,
    View,
)
from ope_estimators.features.actions import design, encoded
from ope_estimators.learning.folds import logged_folds, multiplicity
from ope_estimators.learning.learners import (
    ActionClassifierName,
    classifier,
    devices,
    fitted,
    requires,
)
from ope_estimators.nuisance.policy import MAX_TABLE, FittedPolicy, too_many_actions

LARGEST_SHARPENING = 10.0
"""The exponent of the calibration is held within this factor of one."""

FIRST_SHARE, LARGEST_ODDS = float(np.log(0.1)), 16.0
"""Log odds of each share of exploration to the classifier: where the search begins and ends."""


class EstimatedPropensity(Estimator):
    """Mixin before an estimator that divides by propensities: it can estimate them.

    Parameters
    ----------
    propensity : ``given``, those of the logs, or ``estimated``: the probability of each logged
        action by a classifier of actions that has not seen the row's unit, calibrated. The target
        policy must still be known. Standard errors take the estimates as given, which is
        conservative where the classifier is right.
    propensity_classifier : its name.
    propensity_folds : folds of the classifier, by unit; 1 fits it in-sample.
    propensity_calibration : ``mixture``, one power of all probabilities beside shares of uniform
        exploration and of the actions' frequencies, of least log-loss; or ``isotonic``, for each
        action the increasing function of its probability whose inverse has the least squared
        error as an inverse weight.
    """

    added_parameters: ClassVar[Mapping[str, Any]] = {
        "propensity": "given",
        "propensity_classifier": "logistic",
        "propensity_folds": 5,
        "propensity_calibration": "mixture",
    }

    _: KW_ONLY
    propensity: Literal["given", "estimated"] = "given"
    propensity_classifier: ActionClassifierName = "logistic"
    propensity_folds: Annotated[int, Ge(1)] = 5
    propensity_calibration: Literal["mixture", "isotonic"] = "mixture"

    @property
    def access(self) -> Access:
        """That of the estimator; no propensities, where they are estimated."""
        needed = super().access
        return needed & ~Access.PROPENSITY if self._estimates else needed

    @property
    def row_weights(self) -> bool:
        """Whether it uses row weights: not for finite-sample bounds."""
        return getattr(self, "interval", "asymptotic") in ("asymptotic", "bootstrap")

    @property
    def action_masks(self) -> bool:
        """The policies respect masks; a classifier of actions does not."""
        return not self._estimates

    @property
    def requires(self) -> tuple[str, ...]:
        """The modules of the classifier, too."""
        own = super().requires
        return (*own, *requires(self.propensity_classifier)) if self._estimates else own

    @property
    def devices(self) -> tuple[str, ...]:
        """Devices of the classifier, too."""
        own = super().devices
        return max(own, devices(self.propensity_classifier), key=len) if self._estimates else own

    @property
    def _estimates(self) -> bool:
        return self.propensity == "estimated"

    def _propensity(self, view: View) -> FloatArray:
        """Return the propensities of the logged actions, given or estimated: (n,)."""
        if not self._estimates:
            return view.propensity
        kind = IsotonicPropensity if self.propensity_calibration == "isotonic" else PropensityModel
        return view.fitted(kind(self.propensity_classifier, self.propensity_folds))


def refuse_bets(estimator: EstimatedPropensity) -> None:
    """Refuse a guaranteed or anytime interval, which holds for known propensities alone."""
    if estimator.propensity == "estimated":
        msg = "interval=guaranteed|anytime needs propensity=given: estimates guarantee no level"
        raise ParameterError(msg)


@dataclass(frozen=True)
class PropensityModel:
    """A shared fit: the probability of each logged action, out of fold and calibrated.

        p_i = (1 - u - v) π̂_-k(a_i|x_i)^s / sum_a π̂_-k(a|x_i)^s + u / n_a + v n_(a_i) / n

    π̂_-k is a classifier that was fitted without the fold k of the row's unit; an action that the
    other folds lack has probability 1 / (n_k + 1) there, n_k being their number of rows. The
    exponent s and the shares u of uniform exploration over the n_a logged actions and v of their
    frequencies have the least log-loss on all rows, each predicted out of fold. A logger that
    explores is no softmax: without u and v a classifier that is sure has weights without bound.

    Parameters
    ----------
    learner : a classifier's name.
    cross_fit : number of folds, by unit; 1 fits one classifier on all rows.

    Raises
    ------
    UnavailableError : actions are continuous, or too many for the rows.
    """

    learner: str
    cross_fit: int

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> FloatArray:
        """Return the probabilities: (n,)."""
        if view.n_actions is None or too_many_actions(view.action):
            kind = "continuous" if view.n_actions is None else f"too many (above {MAX_TABLE:,})"
            msg = f"propensity=estimated needs a classifier of actions; these are {kind}"
            raise UnavailableError(msg)
        actions, label = np.unique(view.action, return_inverse=True)
        label = label.reshape(-1)
        score = self._scores(view, label, len(actions), rng, device)
        probability = self._calibrated(score, label, view.row_weight)
        # Shared with other trials.
        probability.flags.writeable = False
        return probability

    def _calibrated(
        self, score: FloatArray, label: IntArray, counts: FloatArray | None
    ) -> FloatArray:
        """Return the probabilities of the logged actions: (n,).

        Parameters
        ----------
        score : (n, n_seen), logarithms of probabilities, not normalized.
        label : (n,), the column of each logged action.
        counts : (n,), for how many rows each one stands, or None.
        """
        from scipy.optimize import minimize
        from scipy.special import softmax

        rows = np.arange(len(label))
        share = np.bincount(label, weights=counts, minlength=score.shape[1])
        explored = [np.full(len(label), 1.0 / len(share)), share[label] / share.sum()]

        def mixed(x: FloatArray) -> tuple[FloatArray, FloatArray]:
            """Return the probabilities, and their derivatives by x: (n,), (3, n)."""
            exponent, parts = float(np.exp(x[0])), softmax([0.0, *x[1:]])
            table = exponent * score
            table -= table.max(axis=1, keepdims=True)
            np.exp(table, out=table)
            table /= table.sum(axis=1, keepdims=True)
            each = np.stack([table[rows, label], *explored])
            found = parts @ each
            excess = score[rows, label] - np.einsum("ij,ij->i", table, score)
            slopes = [
                parts[0] * exponent * each[0] * excess,
                *parts[1:, None] * (each[1:] - found),
            ]
            return found, np.stack(slopes)

        def loss(x: FloatArray) -> tuple[float, FloatArray]:
            found, slopes = mixed(x)
            mean = -float(np.average(np.log(found), weights=counts))
            return mean, -np.average(slopes / found, axis=1, weights=counts)

        bound = float(np.log(LARGEST_SHARPENING))
        best = minimize(
            loss,
            [0.0, FIRST_SHARE, FIRST_SHARE],
            jac=True,
            method="L-BFGS-B",
            bounds=[(-bound, bound), *[(-LARGEST_ODDS, LARGEST_ODDS)] * 2],
            options={"ftol": 1e-12, "gtol": 1e-8},
        )
        return mixed(best.x)[0]

    def _scores(
        self,
        view: View,
        label: Any,
        n_seen: int,
        rng: np.random.Generator,
        device: str,
    ) -> FloatArray:
        """Return logarithms of out-of-fold probabilities, not normalized: (n, n_seen)."""
        columns = view.schema.context
        table = design(encoded(columns, view.context))
        n_folds = 1 if self.cross_fit == 1 else min(self.cross_fit, len(np.unique(view.fold_unit)))
        fold = logged_folds(view.fold_unit, n_folds, rng)
        score = np.empty((view.n, n_seen))
        for k in range(n_folds):
            held = fold == k
            train = np.flatnonzero(held if n_folds == 1 else ~held)
            if view.row_weight is not None:
                train = np.repeat(train, multiplicity(view.row_weight)[train])
            seen, own = np.unique(label[train], return_inverse=True)
            model = None
            if len(seen) > 1:
                seed = int(rng.integers(2**31))
                model = classifier(self.learner, seed=seed, device=device)
                repeated = view.has_units or view.row_weight is not None
                unit = view.fold_unit[train] if repeated else None
                fitted(model, table[train], own.reshape(-1), unit)
            policy = FittedPolicy(model, columns, seen, n_seen, len(train))
            floor = 1.0 / (len(train) + 1)
            probability = np.full((int(held.sum()), n_seen), floor)
            for rows, part in policy.blocks(view.context[held]):
                probability[rows.start : rows.stop, seen] = np.maximum(part, np.finfo(float).tiny)
            score[held] = np.log(probability)
        return score


@dataclass(frozen=True)
class IsotonicPropensity(PropensityModel):
    """`PropensityModel` with inverse weights that are calibrated by isotonic regression.

        α_a = argmin over decreasing α of sum_i [ 1{a_i = a} α(p_i)² - 2 α(p_i) ]

    for each action a, p_i its estimated probability in row i. The minimum is one over the isotonic
    regression of 1{a_i = a} on p_i: within a block of rows the share of them that took the action.
    A row of a block that took the action has a weight of at most the size of the block.

    References
    ----------
    Stabilized inverse probability weighting via isotonic calibration (van der Laan, Lin, Carone
    and Luedtke, 2025).
    """

    def _calibrated(
        self, score: FloatArray, label: IntArray, counts: FloatArray | None
    ) -> FloatArray:
        from sklearn.isotonic import IsotonicRegression

        score = score - score.max(axis=1, keepdims=True)
        probability = np.exp(score)
        probability /= probability.sum(axis=1, keepdims=True)
        out = np.empty(len(label))
        for action, column in enumerate(probability.T):
            own = label == action
            fit = IsotonicRegression().fit(column, own.astype(float), counts)
            out[own] = fit.predict(column[own])
        return out
