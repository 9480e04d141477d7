"""FEPW and FEPWS: EPW and EPWS behind a flow."""

from __future__ import annotations

import numpy as np
import pytest

from support import tiny_worlds as tiny

pytest.importorskip("torch")
pytest.importorskip("zuko")

from ope_estimators.embedded.learned.edr import EDR
from ope_estimators.embedded.learned.epw import EPW
from ope_estimators.embedded.learned.fedr import FEDR
from ope_estimators.embedded.learned.fepw import FEPW
from ope_estimators.embedded.learned.fepw_paper import FEPWPaper
from ope_estimators.embedded.learned.fepws import FEPWS
from ope_estimators.embedded.learned.fepws_paper import FEPWSPaper

SHORT = {"flow_params": {"epochs": 2, "hidden": [16], "transforms": 2}}
TREE = "sklearn.tree.DecisionTreeClassifier"
SATURATED = {"classifier": TREE, "cross_fit": 0, "clip": None, "calibration": "none"}


@pytest.mark.parametrize("cls", [FEPW, FEPWS, FEDR])
def test_an_invertible_map_leaves_exact_frequencies_exact(cls):
    """On atoms a full tree is exact before the flow and after it."""
    world = tiny.through_embedding()
    estimate = tiny.run(cls(**SATURATED, **SHORT), world.population())
    assert estimate.value == pytest.approx(world.value, abs=1e-9)


def test_all_of_the_family_share_one_flow_and_one_classifier():
    view = tiny.view_of(tiny.through_embedding().sample(60, np.random.default_rng(0)))
    rng = np.random.default_rng(0)
    fits = [
        cls(classifier="logistic", **SHORT).fit(view, rng=rng, device="cpu").ratio_
        for cls in (FEPW, FEPWS, FEDR)
    ]
    assert fits[0] is fits[1] is fits[2]
    assert fits[0].diagnostics["flow_epochs"] == 2
    other = FEPW(classifier="gbm", **SHORT)
    other.fit(view, rng=rng, device="cpu")
    # Another classifier on the same flow: the flow's facts are the same.
    assert other.ratio_.diagnostics["flow_train_nll"] == fits[0].diagnostics["flow_train_nll"]


def test_the_kernel_compares_embeddings_not_their_images():
    given = tiny.through_embedding().sample(60, np.random.default_rng(0), shared=True)
    settings = {"classifier": "logistic", "kernel": "rbf", "bandwidth": 1.0}
    estimate = tiny.run(FEPWS(**settings, **SHORT), given)
    ratio = tiny.run(FEPWS(classifier="logistic", **SHORT), given)
    squared = np.square(given.target_embedding - given.embedding).sum(axis=1)
    np.testing.assert_allclose(estimate.weights, ratio.weights * np.exp(-squared / 2))


def test_the_printed_forms_are_the_plain_ones_with_other_defaults():
    given = tiny.through_embedding().sample(40, np.random.default_rng(0))
    settings = {
        "composition": "tensor",
        "classifier": "gbm",
        "cross_fit": 0,
        "calibration": "none",
        "clip": None,
    }
    for paper, plain, kernel in (
        (FEPWPaper, FEPW, {}),
        (FEPWSPaper, FEPWS, {"kernel": "rbf"}),
    ):
        have = tiny.run(paper(**SHORT), given).value
        assert have == tiny.run(plain(**settings, **kernel, **SHORT), given).value


def test_what_trains_on_cuda_is_said_and_what_it_needs_is_named():
    assert EPW().devices == EDR().devices == ("cpu",)
    assert EPW(classifier="mlp").devices == EPW(classifier="xgboost").devices == ("cpu", "cuda")
    assert EDR(regressor="xgboost").devices == ("cpu", "cuda")
    assert FEPW().devices == FEDR().devices == ("cpu", "cuda")
    assert {"torch", "zuko"} <= set(FEPW().requires)
    assert "torch" not in EPW().requires
    assert "torch" in EPW(classifier="mlp").requires
    assert "xgboost" in EPW(classifier="xgboost").requires


@pytest.mark.parametrize("cls", [FEPW, FEPWS, FEDR, FEPWPaper, FEPWSPaper])
def test_twenty_rows_give_a_finite_estimate(cls):
    given = tiny.through_embedding().sample(20, np.random.default_rng(0))
    assert np.isfinite(tiny.run(cls(**SHORT), given).value)
