"""The doubly robust estimators with small models, and a log to try them on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ope_bench.contracts.data import Problem
from ope_estimators.actions.doubly_robust.cab import CAB
from ope_estimators.actions.doubly_robust.dr_os import DROS
from ope_estimators.actions.doubly_robust.dr_ps import DRPS
from ope_estimators.actions.doubly_robust.mrdr import MRDR
from ope_estimators.actions.doubly_robust.sg_dr import SGDR
from ope_estimators.actions.doubly_robust.sndr import SNDR
from ope_estimators.actions.doubly_robust.switch import Switch
from ope_estimators.actions.doubly_robust.switch_dr import SwitchDR
from ope_estimators.actions.doubly_robust.tmle import TMLE
from support import tiny_worlds as tiny

MODEL: dict[str, Any] = {"regressor": "linear", "cross_fit": 3}
CONSTANT: dict[str, Any] = {"regressor": "sklearn.dummy.DummyRegressor", "cross_fit": 1}

FAMILY: list[Any] = [
    SNDR(**MODEL),
    Switch(threshold=1.5, **MODEL),
    Switch(**MODEL),
    SwitchDR(threshold=1.5, **MODEL),
    SwitchDR(**MODEL),
    DROS(lambda_=2.0, **MODEL),
    DROS(**MODEL),
    DRPS(clip=1.5, **MODEL),
    DRPS(**MODEL),
    SGDR(**MODEL),
    CAB(threshold=1.5, **MODEL),
    CAB(**MODEL),
    MRDR(**MODEL),
    TMLE(**MODEL),
    TMLE(form="covariate", **MODEL),
    TMLE(link="linear", **MODEL),
    TMLE(form="covariate", link="linear", **MODEL),
]
EVERY = pytest.mark.parametrize("estimator", FAMILY, ids=repr)
SHIFTED = [e for e in FAMILY if not isinstance(e, Switch | CAB)]


def sample(n: int = 60, seed: int = 0) -> Problem:
    return tiny.small().sample(n, np.random.default_rng(seed))
