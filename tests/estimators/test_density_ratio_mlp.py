"""Perceptrons: they learn, they repeat themselves, they keep out of torch's global stream."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from ope_estimators.density_ratio.log_odds import log_odds  # noqa: E402  needs torch
from ope_estimators.learning.descent import Schedule, train  # noqa: E402
from ope_estimators.learning.learners import classifier, regressor  # noqa: E402
from ope_estimators.learning.mlp import MLPClassifier, MLPRegressor  # noqa: E402


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def bent(n=2000, seed=0):
    """P(1|x) depends on x² - 1, on columns of very different scales."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    odds = 3 * (x[:, 0] ** 2 - 1)
    y = (rng.random(n) < 1 / (1 + np.exp(-odds))).astype(int)
    return x * [1000.0, 0.01], y, odds


def test_a_classifier_learns_odds_that_no_line_has():
    x, y, _ = bent()
    model = classifier("mlp", seed=0).fit(x, y)
    held, _, truth = bent(seed=1)
    inside = np.abs(truth) < 3
    assert np.corrcoef(log_odds(model, held)[inside], truth[inside])[0, 1] > 0.95
    p = model.predict_proba(held)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_allclose(np.log(p[:, 1] / p[:, 0]), log_odds(model, held), atol=1e-6)
    np.testing.assert_array_equal(model.predict(held), (p[:, 1] > 0.5).astype(int))


def test_a_regressor_learns_a_curve_in_its_own_units():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1500, 1))
    y = 1e4 + 100 * np.sin(2 * x[:, 0])
    model = regressor("mlp", seed=0).fit(x, y)
    error = model.predict(x) - y
    assert np.sqrt(np.mean(error**2)) < 0.25 * y.std()


def test_the_same_seed_gives_the_same_bits_and_leaves_the_global_stream_alone():
    x, y, _ = bent(300)
    first = MLPClassifier(epochs=3, random_state=5).fit(x, y).decision_function(x)
    torch.manual_seed(99)
    torch.randn(3)
    state = torch.get_rng_state()
    second = MLPClassifier(epochs=3, random_state=5).fit(x, y).decision_function(x)
    np.testing.assert_array_equal(first, second)
    assert torch.equal(torch.get_rng_state(), state)
    third = MLPClassifier(epochs=3, random_state=6).fit(x, y).decision_function(x)
    assert not np.array_equal(first, third)


@pytest.mark.parametrize("n", [1, 2, 4, 30])
def test_few_rows_and_constant_columns_are_no_obstacle(n):
    x = np.ones((n, 2))
    y = np.arange(n) % 2
    for model in (MLPClassifier(epochs=2), MLPRegressor(epochs=2)):
        assert np.isfinite(model.fit(x, y).predict(x)).all()
    assert MLPClassifier(epochs=1).fit(x, y).decision_function(np.empty((0, 2))).shape == (0,)


def test_training_keeps_the_best_epoch_and_stops_when_patience_ends():
    module = torch.nn.Linear(1, 1)
    losses = iter([3.0, 1.0, 2.0, 2.0, 2.0, 2.0])
    kept = []

    def held_out():
        value = next(losses)
        if value == 1.0:
            kept.append(module.weight.detach().clone())
        return torch.tensor(value)

    x = torch.ones(4, 1)
    descent = train(
        module,
        lambda rows: (module(x[rows]) - 5).square().mean(),
        held_out,
        rows=np.arange(4),
        schedule=Schedule(50, 2, 0.1, 0.0, 3),
        rng=np.random.default_rng(0),
        device="cpu",
    )
    assert (descent.epochs, descent.held_out) == (5, 1.0)
    assert torch.equal(module.weight, kept[0])


def test_unknown_parameters_are_named():
    from ope_bench.base.errors import ParameterError

    with pytest.raises(ParameterError, match="layers"):
        classifier("mlp", seed=0, params={"layers": 3})


def test_no_tensor_stays_on_the_cpu_while_a_perceptron_trains_elsewhere():
    """torch's meta device computes nothing but refuses tensors of another device."""
    model = MLPClassifier(device="meta")
    with pytest.raises(RuntimeError, match="meta"):
        # The first thing that needs a number is the held-out loss: all steps before it ran.
        model.fit(*bent(300)[:2])
    assert all(p.grad.device.type == "meta" for p in model.module_.parameters())


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_on_a_gpu_a_perceptron_trains_there():
    x, y, _ = bent()
    model = classifier("mlp", seed=0, device="cuda").fit(x, y)
    assert all(p.device.type == "cuda" for p in model.module_.parameters())
    cpu = classifier("mlp", seed=0).fit(x, y)
    assert np.corrcoef(log_odds(model, x), log_odds(cpu, x))[0, 1] > 0.95
