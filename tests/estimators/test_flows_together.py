"""Flows trained side by side are those trained one by one: step by step, and in distribution."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ope_bench.base.errors import OpeBenchError
from ope_bench.contracts.data import Problem
from ope_bench.contracts.random import DataSeed
from ope_bench.contracts.view import Access, FitCache, View
from ope_bench.suites.manifest import specs_of
from ope_bench.trials.record import Trial
from ope_bench.trials.status import Device
from ope_bench.trials.trial import Workspace, run_trial

torch = pytest.importorskip("torch")
pytest.importorskip("zuko")

from ope_estimators.density_ratio.settings import ratio_model  # noqa: E402  needs torch
from ope_estimators.embedded.learned.epws import EPWS  # noqa: E402
from ope_estimators.embedded.learned.fepw import FEPW  # noqa: E402
from ope_estimators.flows.families import flow_module  # noqa: E402  needs torch to be of use
from ope_estimators.flows.flow import FlowModel  # noqa: E402
from ope_estimators.learning.descent import initialize_modules  # noqa: E402
from ope_estimators.learning.stacked_modules import Stack  # noqa: E402

TINY = {"transforms": 2, "hidden": (16, 12), "batch_size": 32}


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def view_of(replicate: int, *, rows: int = 60, context: int = 1, device: str = "cpu") -> View:
    """Two samples that lie a little apart, from a stream of the replicate's own."""
    rng = np.random.default_rng(replicate)
    problem = Problem(
        context=rng.normal(size=(rows, context)),
        action=np.zeros(rows, int),
        embedding=rng.normal(size=(rows, 2)),
        reward=np.zeros(rows),
        target_context=rng.normal(size=(rows, context)),
        target_action=np.zeros(rows, int),
        target_embedding=0.8 * rng.normal(size=(rows, 2)) + 0.5,
        n_actions=1,
    )
    seed = DataSeed("test", 0, replicate)
    return View(problem, Access.SAMPLES, seed=seed, fit_cache=FitCache(), device=device)


def together(spec, views, device="cpu"):
    return spec.complete([view.begin_batched(spec, set()) for view in views], device=device)


def members(name, features, context, count=3):
    built = []
    for number in range(count):
        with initialize_modules(number):
            built.append(flow_module(name, features, context, 2, (10, 8)))
    return built


@pytest.mark.parametrize("columns", [(1, 0), (3, 0), (1, 2), (2, 2)])
@pytest.mark.parametrize("name", ["maf", "nsf", "realnvp", "nice", "naf", "sospf", "bpf", "gf"])
def test_a_stack_computes_what_its_members_do(name, columns):
    features, context = columns
    if features == 1 and name in ("realnvp", "nice"):
        pytest.skip("couples columns")
    flows = members(name, features, context)
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(3, 7, features, generator=rng)
    c = torch.randn(3, 7, context, generator=rng) if context else None
    stack = Stack(flows)
    stacked = stack.module(c).log_prob(x)
    stacked.sum().backward()
    slopes = [parameter.grad for parameter in stack.parameters()]
    for number, flow in enumerate(flows):
        alone = flow(None if c is None else c[number]).log_prob(x[number])
        torch.testing.assert_close(stacked[number], alone, rtol=1e-4, atol=1e-4)
        alone.sum().backward()
        own = {id(p): p.grad for p in flow.parameters()}
        for (_, sources), slope in zip(stack._stacked, slopes, strict=True):
            want = own.pop(id(sources[number]))
            if want is not None:
                have = slope[number].reshape(want.shape)
                torch.testing.assert_close(have, want, rtol=1e-3, atol=1e-3)
        assert not own, "a parameter is not in the stack"


@pytest.mark.parametrize("options", [{}, {"conditional": True}, {"name": "nsf"}])
def test_few_steps_together_are_the_same_steps_alone(options):
    """Same streams, batches and noise: only rounding differs, which few steps keep small."""
    spec = FlowModel(**TINY | options, epochs=2)
    flows = together(spec, [view_of(number) for number in range(3)])
    for number, flow in enumerate(flows):
        alone = view_of(number).fitted(spec)
        np.testing.assert_allclose(flow.pooled, alone.pooled, atol=2e-3)
        assert flow.diagnostics["flow_epochs"] == alone.diagnostics["flow_epochs"]
        for name in ("flow_held_out_nll", "flow_train_nll"):
            assert flow.diagnostics[name] == pytest.approx(alone.diagnostics[name], abs=1e-3)


def test_each_flow_stops_when_it_would_alone():
    spec = FlowModel(**TINY, epochs=12, patience=1, learning_rate=2e-2)
    numbers = range(6)
    flows = together(spec, [view_of(number) for number in numbers])
    epochs = [flow.diagnostics["flow_epochs"] for flow in flows]
    alone = [view_of(n).fitted(spec).diagnostics["flow_epochs"] for n in numbers]
    assert len(set(epochs)) > 1, "all stopped at once: nothing is tested"
    # Rounding grows with every step, and may move a stop that was a close call.
    assert sum(a == b for a, b in zip(epochs, alone, strict=True)) >= len(epochs) - 1


def test_what_comes_of_a_flow_hardly_depends_on_its_neighbors():
    spec = FlowModel(**TINY, epochs=2)
    many = together(spec, [view_of(number) for number in range(4)])
    few = together(spec, [view_of(2)])
    np.testing.assert_allclose(many[2].pooled, few[0].pooled, atol=2e-3)


def test_the_same_batch_gives_the_same_bits():
    spec = FlowModel(**TINY, epochs=3)
    first, second = (together(spec, [view_of(n) for n in range(3)]) for _ in range(2))
    for one, other in zip(first, second, strict=True):
        assert np.array_equal(one.pooled, other.pooled)


def test_samples_of_different_sizes_are_trained_in_one_batch():
    spec = FlowModel(**TINY, epochs=1)
    sizes = [(60, 1), (40, 1), (60, 2), (60, 1)]
    views = [view_of(n, rows=rows, context=c) for n, (rows, c) in enumerate(sizes)]
    flows = together(spec, views)
    assert [flow.pooled.shape for flow in flows] == [(2 * rows, 2 + c) for rows, c in sizes]
    alone = view_of(1, rows=40).fitted(spec)
    np.testing.assert_allclose(flows[1].pooled, alone.pooled, atol=2e-3)


def test_a_flow_that_learns_nothing_fails_alone(monkeypatch):
    spec = FlowModel(**TINY, epochs=2)
    views = [view_of(number) for number in range(3)]
    begun = [view.begin_batched(spec, set()) for view in views]
    with torch.no_grad():
        next(begun[1].flow.module.parameters()).fill_(math.nan)
    flows = spec.complete(begun, device="cpu")
    assert isinstance(flows[1], OpeBenchError)
    assert "not finite" in str(flows[1])
    alone = view_of(2).fitted(spec)
    np.testing.assert_allclose(flows[2].pooled, alone.pooled, atol=2e-3)


@pytest.mark.parametrize("options", [{}, {"conditional": True}, {"name": "nsf"}])
def test_no_tensor_stays_on_the_cpu_while_flows_train_elsewhere(monkeypatch, options):
    """torch's meta device computes nothing but refuses tensors of another device."""
    stacks = []

    class Spy(Stack):
        def __init__(self, members):
            super().__init__(members)
            stacks.append(self)

    monkeypatch.setattr("ope_estimators.learning.stacked_modules.Stack", Spy)
    views = [view_of(number, device="meta") for number in range(2)]
    # Whether a gradient is too long is asked on the CPU alone, so the first number is a loss.
    with pytest.raises((RuntimeError, NotImplementedError), match="meta"):
        together(FlowModel(**TINY | options, epochs=1), views, device="meta")
    trained = [p for p in stacks[0].parameters() if p.grad is not None]
    assert trained
    assert all(p.grad.device.type == "meta" for p in trained)


@pytest.mark.slow
def test_likelihoods_together_are_distributed_as_those_alone():
    """After many steps single fits differ, their distribution does not."""
    spec = FlowModel(**TINY, epochs=15)
    numbers = range(16)
    flows = together(spec, [view_of(number) for number in numbers])
    have = np.array([flow.diagnostics["flow_held_out_nll"] for flow in flows])
    alone = [view_of(n).fitted(spec).diagnostics["flow_held_out_nll"] for n in numbers]
    difference = have - np.array(alone)
    error = difference.std(ddof=1) / math.sqrt(len(difference))
    # Paired on the same data and draws: far below the spread between data sets.
    assert abs(difference.mean()) < 4 * error + 1e-3
    assert difference.std() < 0.5 * have.std()


def test_networks_of_all_folds_are_the_same_few_steps_together_and_alone():
    spec = ratio_model(
        composition="concat",
        classifier="mlp",
        classifier_params={"epochs": 2, "hidden": [12]},
        cross_fit=3,
        calibration="none",
        clip=None,
    ).scores
    scores = together(spec, [view_of(number) for number in range(3)])
    for number, one in enumerate(scores):
        alone = view_of(number).fitted(spec)
        assert np.array_equal(one.fold, alone.fold)
        np.testing.assert_allclose(one.log_ratio, alone.log_ratio, atol=1e-3)


def test_a_batch_holds_the_flow_and_then_the_network():
    made = FEPW(classifier="mlp").batched
    assert [type(spec).__name__ for spec in made] == ["FlowModel", "ScoreModel"]
    assert [type(spec).__name__ for spec in FEPW().batched] == ["FlowModel"]
    assert [type(spec).__name__ for spec in EPWS(classifier="mlp").batched] == ["ScoreModel"]
    smoothed = EPWS(classifier="mlp", kernel="rbf", kernel_form="ek-is")
    assert EPWS().batched == smoothed.batched == ()


@pytest.mark.slow
@pytest.mark.parametrize("classifier", ["logistic", "mlp"])
def test_errors_together_are_distributed_as_those_alone(classifier):
    """RMSE of a whole block of trials, paired on the same data."""
    flow = "flow_params={epochs: 8, transforms: 2, hidden: [16]}"
    network = ",classifier_params={epochs: 5, hidden: [12]}" if classifier == "mlp" else ""
    (world,) = specs_of("environment", "saito-toy[n_actions=20,n_samples=80]")
    asked = f"fepws[classifier={classifier}{network},cross_fit=2,{flow}]"
    (method,) = specs_of("estimator", asked)
    errors = {}
    for device in (Device.CPU, Device.CPU_BATCH):
        workspace = Workspace()
        records = [
            run_trial(Trial(world, method, number, device=device), workspace)
            for number in range(Device.CPU_BATCH.block_size)
        ]
        assert {record.status.value for record in records} == {"ok"}
        assert all((record.shared_seconds > 0) == device.batched for record in records)
        errors[device] = np.array([r.estimate - r.truth_empirical for r in records])
    squares = errors[Device.CPU_BATCH] ** 2 - errors[Device.CPU] ** 2
    error = squares.std(ddof=1) / math.sqrt(len(squares))
    assert abs(squares.mean()) < 4 * error + 1e-4
    rmse = {device: math.sqrt(np.mean(one**2)) for device, one in errors.items()}
    assert rmse[Device.CPU_BATCH] == pytest.approx(rmse[Device.CPU], rel=0.1)
