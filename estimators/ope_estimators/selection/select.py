"""The estimator ``select``: an estimator chosen among others by the logs."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import field, replace
from functools import reduce
from operator import or_
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from annotated_types import Ge, MinLen

from ope_bench import (
    CHOSEN_ESTIMATOR,
    Access,
    Diagnostic,
    Estimate,
    Estimator,
    EstimatorSpec,
    FloatArray,
    NestedEstimator,
    View,
)
from ope_estimators.selection.anchored import anchored_score
from ope_estimators.selection.candidates import Candidate, CandidateOutcomes, run_candidates
from ope_estimators.selection.first import first_choice
from ope_estimators.selection.ocv import ocv_score
from ope_estimators.selection.slope import slope_choice
from ope_estimators.selection.spread import Spread, covariance

__all__ = ["Select"]

ANCHORED = ("anchored", "ocv", "ocv-terms")
"""The rules that compare with an anchor."""

OCV = ("ocv", "ocv-terms")

KNOWN = Access.PROPENSITY | Access.TARGET_POLICY

_MODELS = (
    "[regressor=quadratic]",
    # Where one-hot actions have too many products with the context.
    "[action_features=embedding,regressor=quadratic]",
    "[regressor=ridge]",
)
ANCHORS: dict[tuple[str, bool], tuple[str, ...]] = {
    ("anchored", True): (*(f"sndr{model}" for model in _MODELS), "ipws"),
    ("anchored", False): ("edr[regressor=quadratic]",),
    ("ocv", True): (*(f"dr{model}" for model in _MODELS), "ipw"),
    ("ocv", False): ("edr[regressor=quadratic]",),
}
"""Default anchors by rule and by whether the candidates know both policies.

The first that works is taken.
"""


class Select(Estimator):
    """The estimate of one of several estimators, chosen by the logs.

        V̂ = V̂_k,  k = argmin_k  var(V̂_k) + max(0, (V̂_k - V̂_anchor)² - var(V̂_k - V̂_anchor))

    This is the rule ``anchored``, the least estimated mean squared error. ``slope`` walks the
    candidates in their order, from the least bias on, and takes the last before the first that
    does not agree with those before it; ``ocv`` the one that, fitted on a part of the rows, best
    predicts the anchor fitted on the others, ten times; ``ocv-terms`` the same by means of terms
    of fits on all rows, at no cost; ``first`` the first that has an estimate.

    Every candidate sees what it declares, as in a trial of its own, and gives the same estimate
    bit for bit; access is that of all of them together. Candidates share fits. One that fails, or
    lacks something, is left out, and the diagnostics say why; if all fail, so does the selection.
    Variances come from the candidates' terms where they have them (all with a standard error),
    at no cost; if any candidate has none, from resamples of units on which it is computed anew,
    which costs ``n_resamples`` fits. They are infinite for a candidate of which one unit has
    nearly all the weight: it is chosen only where there is no other. The standard error is that
    of the chosen candidate and takes the choice as given: it is too small where candidates differ
    by more than it.

    Assumptions: those of at least one candidate; for ``anchored`` and ``ocv`` also the anchor's;
    for ``slope`` that bias grows along the candidates.
    Fails when: the anchor is biased as a candidate is (missing support, which no anchor sees), or
    its variance is so large that no bias of a candidate shows. With few rows any rule adds the
    noise of its choice; a good fixed choice is then better, and on drawn worlds no rule was shown
    to beat one (results/advice).

    Parameters
    ----------
    candidates : selectors, ``sg-ipw[normalize=true]``, or estimators.
    by : the rule.
    anchor : the estimator that ``anchored`` and ``ocv`` compare with; it has terms. By default
        `SNDR` (``anchored``) or `DR` (``ocv``) with a quadratic model, in the embedding or
        linear where that has too many products, or weighting alone where all fail; `EDR` with
        a quadratic model where the candidates do not know both policies. Without an anchor that
        works, the first candidate is chosen.
    n_resamples : number of resamples, where some candidate has no terms. Each costs as much as
        all candidates without terms. A variance from 30 resamples is known to 26 % of itself
        (√(2/29), if resamples are normal); from 100 to 14 %.

    References
    ----------
    Model selection for estimation of causal parameters (Rothenhäusler, 2020), for ``anchored``.
    Adaptive estimator selection for off-policy evaluation (Su, Srinath and Krishnamurthy, 2020),
    for ``slope``. Cross-validated off-policy evaluation (Cief, Kveton and Kompan, 2025).

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> record = evaluate(Select(["ipws", "dr[regressor=ridge]"]), "saito-toy", replicates=1)[0]
    >>> record.diagnostics["chosen"] in ("ipws", "dr[regressor=ridge]")
    True
    """

    check_params: ClassVar[Mapping[str, Any]] = {
        "candidates": ["ipws", "dr[regressor=ridge]", "sg-ipw[normalize=true]"]
    }

    candidates: Annotated[list[EstimatorSpec], MinLen(1)] = field(
        default_factory=lambda: ["ipws", "dr", "sg-ipw[normalize=true]"]
    )
    by: Literal["anchored", "slope", "ocv", "ocv-terms", "first"] = "anchored"
    anchor: EstimatorSpec | None = None
    n_resamples: Annotated[int, Ge(2)] = 30

    @property
    def nested(self) -> tuple[Estimator, ...]:
        """The candidates, and the anchors that may be run."""
        anchors = [NestedEstimator.of(one).estimator for one in self._anchors]
        return (*self._estimators, *anchors)

    @property
    def action_masks(self) -> bool:
        """A candidate that does not hold under masks is left out."""
        return True

    @property
    def access(self) -> Access:
        """The candidates' and the anchors' together."""
        return reduce(or_, (one.access for one in self.nested))

    @property
    def optional_access(self) -> Access:
        """All of it: a candidate that lacks something is left out."""
        return self.access

    @property
    def devices(self) -> tuple[str, ...]:
        """Devices on which every candidate trains."""
        return ("cpu", "cuda") if all("cuda" in one.devices for one in self.nested) else ("cpu",)

    @property
    def requires(self) -> tuple[str, ...]:
        """The modules of all that are installed; a candidate that lacks one is left out."""
        names = dict.fromkeys(name for one in self.nested for name in one.requires)
        return tuple(name for name in names if _installed(name))

    @property
    def _estimators(self) -> tuple[Estimator, ...]:
        return tuple(NestedEstimator.of(one).estimator for one in self.candidates)

    @property
    def _anchors(self) -> tuple[str | Estimator, ...]:
        """The anchors, of which one is taken."""
        if self.by not in ANCHORED:
            return ()
        if self.anchor is not None:
            return (self.anchor,)
        joint = reduce(or_, (one.access for one in self._estimators))
        return ANCHORS[self.by.removesuffix("-terms"), KNOWN in joint]

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> Self:
        """Run the candidates and choose.

        Raises
        ------
        PositivityViolation : all candidates fail, none graver than by missing support.
        UnavailableError : all candidates lack something.
        """
        seed = int(rng.integers(2**63))
        nested = [NestedEstimator.of(one) for one in self.candidates]
        outcomes = run_candidates(nested, view, device, most=1 if self.by == "first" else None)
        if not outcomes.working:
            self.estimate_ = outcomes.failed()
            return self
        if len(outcomes.working) == 1:
            self.estimate_ = _chosen(outcomes, first_choice(), {})
            return self
        self.estimate_ = self._selected(outcomes, view, seed, device)
        return self

    def estimate(self, view: View) -> Estimate:
        """The estimate of the chosen candidate."""
        return self.estimate_

    def _selected(
        self, outcomes: CandidateOutcomes, view: View, seed: int, device: str
    ) -> Estimate:
        """Apply the rule to two candidates or more."""
        working = outcomes.working
        if self.by in ANCHORED:
            return self._by_anchor(outcomes, view, seed, device)
        spread = self._spread(working, view, seed, device)
        index, score = slope_choice(outcomes.values, spread)
        facts: dict[str, Diagnostic] = {"reruns": spread.reruns}
        return _chosen(outcomes, index, facts | _scores(working, score))

    def _by_anchor(
        self, outcomes: CandidateOutcomes, view: View, seed: int, device: str
    ) -> Estimate:
        working = outcomes.working
        anchor, failures = self._working_anchor(working, view, device)
        if anchor is None or (self.by in OCV and len(np.unique(view.unit)) < 2):
            return _chosen(outcomes, first_choice(), {"anchor": None, **failures})
        spread = self._spread([*working, anchor], view, seed, device)
        reruns = spread.reruns
        if self.by in OCV:
            refit = self.by == "ocv"
            score, further = ocv_score(
                working, anchor, spread, view, seed=seed, device=device, refit=refit
            )
            reruns += further
        else:
            score = anchored_score(np.append(outcomes.values, anchor.estimate.value), spread)
        facts: dict[str, Diagnostic] = {
            "anchor": anchor.name,
            "anchor_value": anchor.estimate.value,
            "reruns": reruns,
            **failures,
            **_scores(working, score),
        }
        return _chosen(outcomes, int(np.argmin(score)), facts)

    def _working_anchor(
        self, working: list[Candidate], view: View, device: str
    ) -> tuple[Candidate | None, dict[str, Diagnostic]]:
        """Return the first anchor that works and has terms, and why others do not.

        An anchor that is a candidate is not run again.
        """
        failures: dict[str, Diagnostic] = {}
        for nested in map(NestedEstimator.of, self._anchors):
            found = [other for other in working if other.name == nested.text]
            if not found:
                outcomes = run_candidates([nested], view, device)
                found = outcomes.working
                told = outcomes.failed_facts().items()
                failures |= {f"anchor_{key}": text for key, text in told}
            if found and found[0].estimate.terms is not None:
                return found[0], failures
            if found:
                failures[f"anchor_failure[{nested.text}]"] = "it has no terms"
        return None, failures

    def _spread(self, candidates: list[Candidate], view: View, seed: int, device: str) -> Spread:
        return covariance(candidates, view, n_resamples=self.n_resamples, seed=seed, device=device)


def _scores(candidates: list[Candidate], score: FloatArray) -> dict[str, Diagnostic]:
    return {f"score[{one.name}]": float(s) for one, s in zip(candidates, score, strict=True)}


def _chosen(outcomes: CandidateOutcomes, index: int, facts: dict[str, Diagnostic]) -> Estimate:
    """The estimate of one candidate, with diagnostics of the choice beside its own."""
    chosen = outcomes.working[index]
    own = dict(chosen.estimate.diagnostics)
    told = {CHOSEN_ESTIMATOR: chosen.name, **facts, **outcomes.facts()}
    return replace(chosen.estimate, diagnostics=own | told)


def _installed(module: str) -> bool:
    return importlib.util.find_spec(module.partition(".")[0]) is not None
