"""Rows that stand for several: a row of weight 2 is that row twice."""

from dataclasses import replace

import numpy as np
import pytest

from ope_bench import (
    Environment,
    Truth,
    evaluate,
    problem_rows,
    standard_error,
    stream,
    weighted_terms,
)
from ope_bench.plugins.registry import registry
from ope_environments.linear_bandit.environment import LinearBandit
from ope_estimators.learning.folds import multiplicity

SEPARATE = "regressor=ridge,action_features=separate"
DECLARED = sorted(
    plugin.id
    for plugin in registry().plugins("estimator")
    if ":" not in plugin.id and registry().find("estimator", plugin.id).cls().row_weights
)
"""Every estimator that says that it uses row weights."""

FORMS = [
    *DECLARED,
    "ls-ipw[lambda_=mse]",
    "lse-ipw[lambda_=mse]",
    "ix-ipw[gamma=mse]",
    "es-ipw[alpha=mse,form=ratio,normalize=true]",
    "el-ipw[divergence=likelihood]",
    "sg-dr[lambda_=slope]",
    "switch[threshold=2]",
    "tmle[form=covariate,link=linear]",
    "ipws[propensity=estimated]",
    "dr-os[regressor=ridge,propensity=estimated,propensity_folds=2]",
    "sg-ipw[normalize=true]",
    "sg-ipw[lambda_=mse]",
    "sg-ipw[lambda_=slope,normalize=true]",
    "ipw[clip=3]",
    "ipw[clip=mse]",
    "ipws[clip=slope]",
    "ipws[interval=bootstrap,resamples=20]",
    "dm[cross_fit=3]",
    "dm[regressor=ridge]",
    "dm[regressor=gbm]",
    f"dm[{SEPARATE}]",
    "dm[regressor=quadratic,cross_fit=3]",
    "dr[regressor=ridge]",
    f"dr[{SEPARATE},clip=5]",
    f"sndr[{SEPARATE}]",
    f"dr-os[{SEPARATE}]",
    "dr-os[regressor=ridge,lambda_=2]",
    f"dr-os[{SEPARATE},lambda_=slope]",
]


class Counted(Environment):
    """Rows with weights 1, 2 and 3, or the same rows so many times."""

    n_samples: int = 300
    repeated: bool = False
    apart: bool = False
    scale: float = 1.0
    whole: bool = True

    def sample(self, *, world_rng, logged_rng, target_rng):
        problem, _ = LinearBandit(n_samples=self.n_samples).sample(
            world_rng=world_rng, logged_rng=logged_rng, target_rng=target_rng
        )
        unit = np.arange(self.n_samples)
        weight = 1.0 + stream("weights").integers(3, size=self.n_samples)
        if not self.whole:
            weight = weight + stream("parts").random(self.n_samples)
        target = np.arange(self.n_samples)
        changes = {"unit": unit, "target_unit": 10_000 + target, "shared_contexts": False}
        problem = problem_rows(problem, unit, target, **changes)
        if not self.repeated:
            return replace(problem, row_weight=weight * self.scale), Truth(0.0, 0.0, 0.0)
        rows = np.repeat(unit, weight.astype(np.int64))
        changes = {"target_unit": problem.target_unit}
        if self.apart:
            changes |= {"unit": np.arange(len(rows)), "shared_contexts": False}
        return problem_rows(problem, rows, target, **changes), Truth(0.0, 0.0, 0.0)


def answers(environment, forms=FORMS):
    return evaluate(forms, environment, replicates=1, progress=False)


def test_a_row_of_weight_2_is_that_row_twice():
    for weighted, repeated in zip(
        answers(Counted()), answers(Counted(repeated=True)), strict=True
    ):
        name = weighted.trial.estimator.id
        assert weighted.status == repeated.status == "ok", (name, weighted.error_message)
        if name == "dr-eb":
            # Its share goes by units, which repeated rows have in common here; all else is equal.
            for fact in ("correction", "mean_weight", "reward_r2"):
                first, second = (one.diagnostics[fact] for one in (weighted, repeated))
                np.testing.assert_allclose(first, second, rtol=1e-9, err_msg=fact)
            continue
        np.testing.assert_allclose(weighted.estimate, repeated.estimate, rtol=1e-9, err_msg=name)
        if name == "dr-os":
            assert weighted.diagnostics["lambda"] == pytest.approx(repeated.diagnostics["lambda"])
        for field in ("standard_error", "logging_average", "interval_low", "interval_high"):
            first, second = getattr(weighted, field), getattr(repeated, field)
            assert (first is None) == (second is None)
            if first is not None:
                np.testing.assert_allclose(first, second, rtol=1e-9, err_msg=f"{name} {field}")


@pytest.mark.parametrize("toward", ["sndr", "tmle"])
def test_a_shrunk_estimate_of_weighted_rows_is_that_of_rows_in_units_of_their_own(toward):
    """With a model fitted in-sample; of folds by unit the copies would be in different ones."""
    form = f"dr-eb[regressor=ridge,cross_fit=1,toward={toward}]"
    weighted, repeated = (
        answers(environment, [form])[0]
        for environment in (Counted(), Counted(repeated=True, apart=True))
    )
    np.testing.assert_allclose(weighted.estimate, repeated.estimate, rtol=1e-9)
    for fact in ("share", "correction", "residual_error", "mean_weight", "reward_r2"):
        first, second = (one.diagnostics[fact] for one in (weighted, repeated))
        np.testing.assert_allclose(first, second, rtol=1e-9, err_msg=fact)
    assert 0 < weighted.diagnostics["share"] < 1


def test_weights_change_the_answer():
    forms = [one for one in DECLARED if one not in ("mrdr", "tmle", "cab", "switch", "ipw-re")]
    plain = LinearBandit(n_samples=300)
    for weighted, unweighted in zip(answers(Counted(), forms), answers(plain, forms), strict=True):
        assert weighted.estimate != unweighted.estimate


def test_only_ratios_of_weights_matter_where_no_model_is_fitted():
    forms = ["ipw", "ipws"]
    for one, other in zip(
        answers(Counted(whole=False), forms),
        answers(Counted(whole=False, scale=7.5), forms),
        strict=True,
    ):
        assert one.estimate == pytest.approx(other.estimate, rel=1e-12)
        assert one.standard_error == pytest.approx(other.standard_error, rel=1e-12)


def test_whoever_does_not_use_row_weights_is_unavailable():
    forms = [plugin.id for plugin in registry().plugins("estimator") if ":" not in plugin.id]
    used = {*DECLARED}
    assert {"ipw", "ipws", "dr-os", "tmle", "el-ipw", "cab", "eipws", "mrdr"} <= used
    for record in answers(Counted(), sorted({*forms} - {"select"})):
        if record.status == "ok":
            assert record.trial.estimator.id in used
        else:
            assert record.status == "unavailable"
            assert record.trial.estimator.id not in used
    refused = [
        "ipw[interval=empirical-likelihood]",
        "ipw[interval=guaranteed,reward_range=[[-9,9]]]",
        "select[candidates=[ipw,ipws]]",
    ]
    for record in answers(Counted(), refused):
        assert record.status == "unavailable"
        assert "row weights" in record.error_message


def test_rows_enter_a_fit_as_often_as_they_count():
    weight = np.array([3.0, 1.0, 2.0])
    assert multiplicity(weight).tolist() == [3, 1, 2]
    halves = stream("halves").random(5000) * 3
    assert abs(multiplicity(halves).sum() - halves.sum()) < 1
    assert np.abs(np.cumsum(multiplicity(halves)) - np.cumsum(halves)).max() <= 0.5 + 1e-9
    assert multiplicity(np.full(10, 1000.0)).tolist() == [20] * 10


def test_weighted_terms_have_the_mean_and_the_error_of_repeated_ones():
    terms = stream("terms").standard_normal(50)
    weight = 1.0 + stream("weight").integers(4, size=50)
    repeated = np.repeat(terms, weight.astype(int))
    unit = np.repeat(np.arange(50), weight.astype(int))
    made = weighted_terms(terms, weight)
    assert made.mean() == pytest.approx(repeated.mean(), rel=1e-12)
    expected = standard_error(repeated, unit)
    assert standard_error(made, np.arange(50)) == pytest.approx(expected, rel=1e-12)
