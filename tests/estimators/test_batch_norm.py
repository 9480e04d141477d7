"""Flows with batch normalization, and flows without rows held out."""

from __future__ import annotations

import numpy as np
import pytest

from ope_bench.contracts.data import Problem
from ope_bench.contracts.random import DataSeed
from ope_bench.contracts.view import Access, FitCache, View

torch = pytest.importorskip("torch")
pytest.importorskip("zuko")

from ope_estimators.flows.batch_norm import EPSILON, KEPT, BatchNorm  # noqa: E402  needs torch
from ope_estimators.flows.families import flow_module  # noqa: E402
from ope_estimators.flows.flow import FlowModel  # noqa: E402
from ope_estimators.learning.descent import initialize_modules  # noqa: E402

ROWS = torch.tensor([[1.0, 10.0], [3.0, 10.0], [5.0, 40.0]], dtype=torch.float64)
ADAPTED = {"name": "maf-norm", "transforms": 2, "hidden": (16,), "epochs": 3, "held_out": 0.0}


def view_of(replicate: int) -> View:
    rng = np.random.default_rng(replicate)
    problem = Problem(
        context=rng.normal(size=(60, 1)),
        action=np.zeros(60, int),
        embedding=rng.normal(size=(60, 2)),
        reward=np.zeros(60),
        target_context=rng.normal(size=(60, 1)),
        target_action=np.zeros(60, int),
        target_embedding=0.8 * rng.normal(size=(60, 2)) + 0.5,
        n_actions=1,
    )
    seed = DataSeed("test", 0, replicate)
    return View(problem, Access.SAMPLES, seed=seed, fit_cache=FitCache(), device="cpu")


def layer(log_scale=(0.0, 0.0), shift=(0.0, 0.0)):
    made = BatchNorm(2).double()
    with torch.no_grad():
        made.log_scale.copy_(torch.tensor(log_scale))
        made.shift.copy_(torch.tensor(shift))
    return made


def test_a_training_batch_is_standardized_by_its_own_moments():
    """Means 3 and 20, variances 8/3 and 200, by hand."""
    mapped, volume = layer((0.5, -1.0), (2.0, 7.0))().call_and_ladj(ROWS)
    deviation = np.sqrt(np.array([8 / 3, 200.0]) + EPSILON)
    factor = np.exp([0.5, -1.0]) / deviation
    wanted = (ROWS.numpy() - [3.0, 20.0]) * factor + [2.0, 7.0]
    np.testing.assert_allclose(mapped.detach(), wanted, rtol=1e-12)
    np.testing.assert_allclose(volume.detach(), np.full(3, np.log(factor).sum()), rtol=1e-12)


def test_afterwards_remembered_moments_are_used():
    made = layer()
    made()(ROWS)
    made().call_and_ladj(ROWS)
    mean = (1 - KEPT**2) * np.array([3.0, 20.0])
    variance = KEPT**2 + (1 - KEPT**2) * np.array([8 / 3, 200.0])
    np.testing.assert_allclose(made.mean, mean, rtol=1e-12)
    np.testing.assert_allclose(made.variance, variance, rtol=1e-12)
    made.eval()
    mapped, volume = made().call_and_ladj(ROWS)
    deviation = np.sqrt(variance + EPSILON)
    np.testing.assert_allclose(mapped.detach(), (ROWS.numpy() - mean) / deviation, rtol=1e-12)
    np.testing.assert_allclose(volume.detach(), np.full(3, -np.log(deviation).sum()), rtol=1e-12)
    np.testing.assert_allclose(made().inv(mapped).detach(), ROWS, rtol=1e-12)
    np.testing.assert_allclose(made.mean, mean, rtol=1e-12)


def test_one_row_alone_is_mapped_by_what_is_remembered_and_leaves_it():
    mapped, volume = layer()().call_and_ladj(ROWS[:1])
    np.testing.assert_allclose(
        mapped.detach(), ROWS[:1].numpy() / np.sqrt(1 + EPSILON), rtol=1e-12
    )
    np.testing.assert_allclose(volume.detach(), [-np.log(1 + EPSILON)], rtol=1e-9)


def test_the_volume_of_the_whole_flow_is_its_jacobians():
    with initialize_modules(0):
        module = flow_module("maf-norm", 3, 0, 2, (16,)).double()
    rows = torch.randn(50, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    module().transform(3 * rows + 1)
    module.eval()
    transform = module().transform
    mapped, volume = transform.call_and_ladj(rows)
    for i in range(5):
        jacobian = torch.autograd.functional.jacobian(lambda row: transform(row[None])[0], rows[i])
        expected = float(torch.linalg.slogdet(jacobian)[1])
        assert expected == pytest.approx(float(volume[i].detach()), abs=1e-9)
    np.testing.assert_allclose(transform.inv(mapped).detach(), rows, atol=1e-6)


def test_without_rows_held_out_all_rows_are_for_training():
    begun = FlowModel(**ADAPTED).begin(view_of(0), rng=np.random.default_rng(0), device="cpu")
    assert begun.train.tolist() == begun.aside.tolist() == list(range(120))


def test_together_is_alone_bit_for_bit():
    spec = FlowModel(**ADAPTED)
    views = [view_of(number) for number in range(2)]
    flows = spec.complete([one.begin_batched(spec, set()) for one in views], device="cpu")
    for number, flow in enumerate(flows):
        alone = view_of(number).fitted(spec)
        np.testing.assert_array_equal(flow.pooled, alone.pooled)
        assert np.isfinite(flow.pooled).all()
        assert flow.diagnostics["flow_epochs"] == 3
