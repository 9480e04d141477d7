"""Problems whose density ratio is known, and ratio models fitted to them."""

from __future__ import annotations

import numpy as np

from ope_bench.contracts.data import Problem
from ope_bench.contracts.random import DataSeed
from ope_bench.contracts.view import Access, FitCache, View
from ope_estimators.density_ratio.settings import ratio_model


def problem_of(c, g, c1, g1, *, schema=None, shared=False) -> Problem:
    c, g, c1, g1 = (np.asarray(a, float).reshape(len(a), -1) for a in (c, g, c1, g1))
    n, m = len(c), len(c1)
    return Problem(
        context=c,
        action=np.zeros(n, int),
        embedding=g,
        reward=np.zeros(n),
        target_context=c1,
        target_action=np.zeros(m, int),
        target_embedding=g1,
        n_actions=1,
        schema=schema,
        shared_contexts=shared,
    )


def view_of(problem: Problem, seed: int = 0) -> View:
    return View(problem, Access.SAMPLES, seed=DataSeed("test", seed, 0), fit_cache=FitCache())


def fitted(problem: Problem, seed: int = 0, **changes):
    settings = {
        "composition": "concat",
        "classifier": "logistic",
        "classifier_params": None,
        "cross_fit": 5,
        "calibration": "none",
        "clip": None,
    }
    return view_of(problem, seed).fitted(ratio_model(**settings | changes))


def gaussians(n, m, seed=0, shift=1.0):
    """Logged g ~ N(0, 1), target g ~ N(shift, 1); log-ratio shift g - shift² / 2."""
    rng = np.random.default_rng(seed)
    c, c1 = rng.normal(size=n), rng.normal(size=m)
    return problem_of(c, rng.normal(size=n), c1, shift + rng.normal(size=m))


# --- compositions
