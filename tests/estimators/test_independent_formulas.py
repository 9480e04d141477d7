"""Estimators on the paper's own world against the same formulas written out again.

Plain numpy and scikit-learn: policies as whole tables, embeddings as indices, one loop a fold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.spatial.distance import pdist
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from ope_bench.contracts.arrays import FloatArray, IntArray
from ope_bench.contracts.data import Problem
from ope_bench.contracts.plugins import Estimator
from ope_bench.contracts.random import DataSeed
from ope_bench.contracts.view import FitCache, View
from ope_environments.saito.toy import SaitoToy
from ope_estimators.actions.direct.dm import DM
from ope_estimators.actions.direct.dm_paper import DMPaper
from ope_estimators.actions.direct.dm_star import DMStar
from ope_estimators.actions.direct.dm_star_paper import DMStarPaper
from ope_estimators.actions.doubly_robust.dr import DR
from ope_estimators.actions.weighting.ipw import IPW
from ope_estimators.actions.weighting.ipw_star import IPWStar
from ope_estimators.actions.weighting.ipws import IPWS
from ope_estimators.density_ratio.capacity import default_params
from ope_estimators.embedded.known.edm import EDM
from ope_estimators.embedded.known.edm_paper import EDMPaper
from ope_estimators.embedded.known.eipw import EIPW
from ope_estimators.embedded.known.eipws import EIPWS
from ope_estimators.embedded.learned.epw import EPW
from ope_estimators.embedded.learned.epw_paper import EPWPaper
from ope_estimators.embedded.learned.epws import EPWS
from ope_estimators.embedded.learned.epws_paper import EPWSPaper
from ope_estimators.embedded.learned.mips import MIPS

SEED = DataSeed("independent formulas", 0, 1)
N_ACTIONS, ROWS = 6, 150


@dataclass(frozen=True, eq=False)
class Written:
    """The problem as whole tables; `row` indexes the logged rows."""

    problem: Problem
    row: IntArray
    logging: FloatArray
    target: FloatArray
    embedded: FloatArray
    atoms: FloatArray
    atom: IntArray

    @property
    def action_weights(self) -> FloatArray:
        at = self.row, self.problem.action
        return np.asarray(self.target[at] / self.logging[at])

    @property
    def embedding_weights(self) -> FloatArray:
        at = self.row, self.atom
        return np.asarray((self.target @ self.embedded)[at] / (self.logging @ self.embedded)[at])


@pytest.fixture(scope="module")
def written() -> Written:
    problem, _ = SaitoToy(n_actions=N_ACTIONS, n_samples=ROWS).sample(
        world_rng=SEED.world(), logged_rng=SEED.logged(), target_rng=SEED.target()
    )
    known: Any = problem
    embed = known.embedding_distribution
    same = (problem.embedding[:, None, :] == embed.atoms).all(axis=2)
    return Written(
        problem,
        np.arange(ROWS),
        known.logging_policy.table(problem.context),
        known.target_policy.table(problem.context),
        embed.table,
        embed.atoms,
        same.argmax(axis=1),
    )


def said(written: Written, estimator: Estimator) -> float:
    """What the estimator says of the problem."""
    view = View(written.problem, estimator.access, seed=SEED, fit_cache=FitCache())
    estimator.fit(view, rng=np.random.default_rng(0), device="cpu")
    return estimator.estimate(view).value


def one_hot(action: IntArray) -> FloatArray:
    return np.eye(N_ACTIONS)[action]


def boosted(written: Written, on: str, seed: int) -> FloatArray:
    """q̂ of every row and action, or atom, by one gradient boosting with the library's sizes."""
    p = written.problem
    shown = one_hot(p.action) if on == "action" else p.embedding
    model = GradientBoostingRegressor(random_state=seed)
    model.fit(np.hstack([p.context, shown]), p.reward)
    points = np.eye(N_ACTIONS) if on == "action" else written.atoms
    return np.stack(
        [model.predict(np.hstack([p.context, np.tile(point, (ROWS, 1))])) for point in points],
        axis=1,
    )


def seed_of(estimator: Any) -> int:
    """The seed that the fitted reward model's first learner was given."""
    return int(estimator.reward_._models[0].random_state)


def test_known_weights_give_the_printed_means(written: Written) -> None:
    reward = written.problem.reward
    for w, plain, normalized in (
        (written.action_weights, IPW(), IPWS()),
        (written.embedding_weights, EIPW(), EIPWS()),
    ):
        assert said(written, plain) == pytest.approx((w * reward).mean())
        assert said(written, normalized) == pytest.approx((w * reward).sum() / w.sum())


def test_direct_methods_sum_over_actions_and_their_printed_forms_do_not(written: Written) -> None:
    p, at = written.problem, (written.row, written.problem.action)
    assert len(np.unique(p.action)) == N_ACTIONS  # or one-hot features would have fewer columns
    dm, printed, star = DM("gbm"), DMPaper(), DMStar("gbm")
    value = said(written, dm)
    q = boosted(written, "action", seed_of(dm))
    assert value == pytest.approx((written.target * q).sum(axis=1).mean())
    assert said(written, printed) == pytest.approx((written.target * q)[at].mean())
    twins = q[written.row, p.target_action]  # both samples share their contexts
    assert said(written, star) == pytest.approx(twins.mean())
    learned = policy(p.target_context, p.target_action, p.context)
    assert said(written, DMStarPaper()) == pytest.approx((learned * q)[at].mean())


def test_embedded_direct_methods_sum_over_embeddings(written: Written) -> None:
    edm, mass = EDM("gbm"), written.target @ written.embedded
    value = said(written, edm)
    q = boosted(written, "embedding", seed_of(edm))
    assert value == pytest.approx((mass * q).sum(axis=1).mean())
    at = written.row, written.atom
    assert said(written, EDMPaper()) == pytest.approx((mass * q)[at].mean())


def policy(context: FloatArray, action: IntArray, at: FloatArray) -> FloatArray:
    """π̂ of every action at other contexts, by logistic regression on standardized columns."""
    scaler = StandardScaler().fit(context)
    model = LogisticRegression(max_iter=1000).fit(scaler.transform(context), action)
    table = np.zeros((len(at), N_ACTIONS))
    table[:, model.classes_] = model.predict_proba(scaler.transform(at))
    return table


def test_policies_learned_from_both_samples_give_ipw_star(written: Written) -> None:
    p, at = written.problem, (written.row, written.problem.action)
    logging = policy(p.context, p.action, p.context)
    target = policy(p.target_context, p.target_action, p.context)
    assert said(written, IPWStar()) == pytest.approx((target[at] / logging[at] * p.reward).mean())


def test_mips_averages_the_weights_of_actions_given_context_and_embedding(
    written: Written,
) -> None:
    p = written.problem
    both = np.hstack([p.context, p.embedding])
    given = policy(both, p.action, both)
    weights = (written.target / written.logging * given).sum(axis=1)
    assert said(written, MIPS()) == pytest.approx((weights * p.reward).mean())


def test_dr_is_the_mean_of_terms_whose_model_has_not_seen_their_fold(written: Written) -> None:
    p, at = written.problem, (written.row, written.problem.action)
    dr = DR(regressor="sklearn.linear_model.LinearRegression", cross_fit=3)
    value = said(written, dr)
    fold: IntArray = dr.reward_._fold
    design = np.hstack([np.ones((ROWS, 1)), p.context, one_hot(p.action)])
    every = np.hstack([np.ones((ROWS, 1)), p.context])
    q = np.empty((ROWS, N_ACTIONS))
    for this in range(3):
        seen = fold != this
        weight = np.linalg.lstsq(design[seen], p.reward[seen], rcond=None)[0]
        q[~seen] = (every[~seen] @ weight[:3])[:, None] + weight[3:]
    terms = (written.target * q).sum(axis=1) + written.action_weights * (p.reward - q[at])
    assert value == pytest.approx(terms.mean())


def test_printed_permutation_weights_are_in_sample_odds_of_embedding_and_context(
    written: Written,
) -> None:
    p = written.problem
    shown = np.vstack([p.embedding, p.target_embedding])
    context = np.vstack([p.context, p.context])
    pairs = np.hstack([shown, context])
    label = np.repeat([0, 1], ROWS)
    eta = GradientBoostingClassifier(random_state=0).fit(pairs, label).predict_proba(pairs)
    odds = (eta[:, 1] / eta[:, 0])[:ROWS]
    assert said(written, EPWPaper()) == pytest.approx((odds * p.reward).mean())
    apart = pdist(shown)
    width = np.median(apart[apart > 0])
    near = np.exp(-np.square((p.target_embedding - p.embedding) / width).sum(axis=1) / 2)
    expected = (odds * near * p.reward).sum() / (odds * near).sum()
    assert said(written, EPWSPaper()) == pytest.approx(expected)


def test_recommended_permutation_weights_are_held_out_odds_at_a_temperature(
    written: Written,
) -> None:
    p, estimator = written.problem, EPW()
    fit_cache = FitCache()
    view = View(p, estimator.access, seed=SEED, fit_cache=fit_cache)
    estimator.fit(view, rng=np.random.default_rng(0), device="cpu")
    value = estimator.estimate(view).value
    fold: IntArray = view.fitted(estimator.ratio_model().scores).fold
    assert np.array_equal(fold[:ROWS], fold[ROWS:])  # rows that share a context stay together
    features = np.vstack(
        [np.hstack([p.embedding, p.context]), np.hstack([p.target_embedding, p.context])]
    )
    label = np.repeat([0, 1], ROWS)
    sizes = default_params("hist-gbm", 2 * ROWS)
    score, log_ratio = np.empty(2 * ROWS), np.empty(2 * ROWS)
    for this in range(5):
        seen = fold != this
        model = HistGradientBoostingClassifier(random_state=0, **sizes)
        score[~seen] = model.fit(features[seen], label[seen]).decision_function(features[~seen])
    for this in range(5):
        seen = fold != this
        sign = 1 - 2 * label[seen]
        found = minimize_scalar(lambda a: np.logaddexp(0, sign * a * score[seen]).sum())  # noqa: B023
        log_ratio[~seen] = found.x * score[~seen]
    weights = np.exp(log_ratio[:ROWS])
    assert value == pytest.approx((weights * p.reward).mean(), rel=1e-4)
    expected = (weights * p.reward).sum() / weights.sum()
    assert said(written, EPWS()) == pytest.approx(expected, rel=1e-4)
