"""The bridge to the Open Bandit Pipeline: with a stand-in, and with the real one where it is.

The real one needs other versions than ours; an environment of its own has them:
sb-obp==0.5.10 scikit-learn==1.3.2 numpy==1.26.4 pandas==2.2.3.
"""

import importlib.util
import sys
import textwrap

import numpy as np
import pytest

from ope_bench import evaluate
from ope_bench.plugins.requirements import pip_line
from ope_bench.testing import estimator_checks
from ope_bench.testing.problems import Given
from ope_estimators.obp.dm import DM
from ope_estimators.obp.dr import DR
from ope_estimators.obp.ipw import IPW
from ope_estimators.obp.mips import MIPS
from ope_estimators.obp.snipw import SNIPW

ALL = (IPW, SNIPW, DM, DR, MIPS)
INSTALLED = importlib.util.find_spec("obp") is not None
real = pytest.mark.skipif(not INSTALLED, reason="the Open Bandit Pipeline is not installed")

STAND_IN = """
import numpy as np


class LogisticRegression:
    def get_params(self):
        return {}


def weight(action, pscore, action_dist, position):
    assert action_dist.ndim == 3 and action_dist.shape[2] == 1
    assert (position == 0).all()
    np.testing.assert_allclose(action_dist.sum(axis=1), 1.0)
    return action_dist[np.arange(len(action)), action, 0] / pscore


class InverseProbabilityWeighting:
    def __init__(self, lambda_):
        self.limit = lambda_

    def estimate_policy_value(self, reward, action, pscore, action_dist, position):
        w = np.minimum(weight(action, pscore, action_dist, position), self.limit)
        return (w * reward).mean()


class SelfNormalizedInverseProbabilityWeighting:
    def estimate_policy_value(self, reward, action, pscore, action_dist, position):
        w = weight(action, pscore, action_dist, position)
        return (w * reward).sum() / w.sum()


class RegressionModel:
    def __init__(self, n_actions, base_model):
        self.n_actions = n_actions

    def fit_predict(self, context, action, reward, n_folds, random_state):
        assert isinstance(random_state, int)
        return np.full((len(reward), self.n_actions, 1), reward.mean())


class DirectMethod:
    def estimate_policy_value(self, action_dist, estimated_rewards_by_reg_model, position):
        return (action_dist * estimated_rewards_by_reg_model).sum(axis=(1, 2)).mean()


class DoublyRobust:
    def estimate_policy_value(
        self, reward, action, pscore, action_dist, position, estimated_rewards_by_reg_model
    ):
        q = estimated_rewards_by_reg_model
        w = weight(action, pscore, action_dist, position)
        residual = reward - q[np.arange(len(action)), action, 0]
        return (w * residual + (action_dist * q).sum(axis=(1, 2))).mean()


class MarginalizedInverseProbabilityWeighting:
    def __init__(self, n_actions, pi_a_x_e_estimator=LogisticRegression()):
        pass

    def estimate_policy_value(
        self, reward, action, action_embed, pi_b, action_dist, context, position
    ):
        assert action_embed.dtype.kind == "i"
        raise TypeError("unexpected keyword argument 'sparse'")
"""


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """A package called obp whose formulas are written out again."""
    package = tmp_path / "obp"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "ope.py").write_text(textwrap.dedent(STAND_IN))
    monkeypatch.syspath_prepend(str(tmp_path))
    real = [name for name in sys.modules if name.partition(".")[0] == "obp"]
    kept = {name: sys.modules.pop(name) for name in real}
    yield
    for name in ("obp", "obp.ope"):
        sys.modules.pop(name, None)
    sys.modules.update(kept)


def values(estimators, world="discrete actions"):
    rows = evaluate(estimators, Given(world), replicates=2)
    assert {row.status for row in rows} == {"ok"}, rows[0].error_message
    return np.array([row.estimate for row in rows]).reshape(2, -1).T


def agree_with_ours():
    found = values([IPW(), "ipw", IPW(clip=1.2), "ipw[clip=1.2]", SNIPW(), "ipws"])
    np.testing.assert_allclose(found[::2], found[1::2], rtol=1e-12)


@pytest.mark.usefixtures("stand_in")
def test_weighting_agrees_with_ours_through_the_stand_in():
    agree_with_ours()


@pytest.mark.usefixtures("stand_in")
def test_a_constant_reward_model_gives_its_constant_and_the_identity_of_dr():
    dm, dr, ipw = values([DM(), DR(), IPW()])
    rows = evaluate("logging-average", Given("discrete actions"), replicates=2)
    means = np.array([row.estimate for row in rows])
    np.testing.assert_allclose(dm, means)
    weights = evaluate("ipw", Given("discrete actions"), replicates=2)
    mean_weight = np.array([row.diagnostics["mean_weight"] for row in weights])
    np.testing.assert_allclose(dr, means + ipw - mean_weight * means)


@pytest.mark.usefixtures("stand_in")
def test_an_interface_that_has_changed_is_unavailable_with_versions():
    [row] = evaluate(MIPS(), Given("discrete actions"), replicates=1)
    assert row.status == "unavailable"
    assert "does not run with" in row.error_message
    assert "scikit-learn " in row.error_message
    assert "'sparse'" in row.error_message


@pytest.mark.usefixtures("stand_in")
@pytest.mark.parametrize("cls", [IPW, SNIPW, DR, MIPS])
def test_continuous_actions_are_unavailable(cls):
    [row] = evaluate(cls(), Given("continuous actions"), replicates=1)
    assert row.status == "unavailable"


@pytest.mark.usefixtures("stand_in")
def test_a_package_that_fails_at_import_is_unavailable_with_the_reason(tmp_path):
    (tmp_path / "obp" / "ope.py").write_text("import numpy\nnumpy.float_removed\n")
    [row] = evaluate(IPW(), Given("discrete actions"), replicates=1)
    assert row.status == "unavailable"
    assert "which cannot be imported here: AttributeError" in row.error_message


@pytest.mark.usefixtures("stand_in")
def test_all_weights_zero_is_a_violation():
    [row] = evaluate(SNIPW(), Given("no action in common"), replicates=1)
    assert row.status == "positivity"


@pytest.mark.skipif(INSTALLED, reason="the Open Bandit Pipeline is installed")
@pytest.mark.parametrize("cls", ALL)
def test_without_the_package_it_is_unavailable_with_the_pip_line(cls):
    [row] = evaluate(cls(), Given("discrete actions"), replicates=1)
    assert row.status == "unavailable"
    assert row.error_message == f"needs 'obp': {pip_line('obp')}"


@real
def test_weighting_agrees_with_ours():
    agree_with_ours()


@real
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("cls", ALL)
def test_adapters_keep_the_contract(cls):
    assert [one for one in estimator_checks(cls()).outcomes() if one.bad] == []


@real
@pytest.mark.filterwarnings("ignore")
def test_marginalized_weighting_runs_or_says_why_not():
    from sklearn import __version__

    [row] = evaluate(MIPS(), Given("discrete actions"), replicates=1)
    old = tuple(map(int, __version__.split(".")[:2])) < (1, 4)
    assert row.status == ("ok" if old else "unavailable")
