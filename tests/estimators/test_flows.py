"""Flows: invertible, reproducible on their own seed, and at ease with awkward data."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ope_bench.base.errors import ParameterError, UnavailableError
from ope_bench.contracts.data import Column, Problem, Schema
from ope_bench.contracts.parameters import validated
from ope_bench.contracts.random import DataSeed
from ope_bench.contracts.view import Access, FitCache, View

torch = pytest.importorskip("torch")
pytest.importorskip("zuko")

from ope_estimators.embedded.learned.fepw import FEPW  # noqa: E402  needs torch to be of use
from ope_estimators.flows.families import flow_module  # noqa: E402
from ope_estimators.flows.flow import FlowModel, flow_model  # noqa: E402
from ope_estimators.flows.overlap import nearest_neighbor_overlap  # noqa: E402
from ope_estimators.learning.descent import initialize_modules  # noqa: E402

NAMES = ("maf", "nsf", "realnvp", "nice", "naf", "sospf", "bpf", "gf")
TINY = {"transforms": 2, "hidden": (16,), "epochs": 2}


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def view_of(c, g, c1, g1, *, schema=None, shared=False, device="cpu", seed=0) -> View:
    c, g, c1, g1 = (np.asarray(a, float).reshape(len(a), -1) for a in (c, g, c1, g1))
    n, m = len(c), len(c1)
    problem = Problem(
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
    seed = DataSeed("test", seed, 0)
    return View(problem, Access.SAMPLES, seed=seed, fit_cache=FitCache(), device=device)


def normal_view(n=100, m=100, d=2, seed=0, **options) -> View:
    rng = np.random.default_rng(seed)
    arrays = (rng.normal(size=(k, w)) for k, w in ((n, 1), (n, d), (m, 1), (m, d)))
    return view_of(*arrays, **options)


@pytest.mark.parametrize("name", NAMES)
def test_every_family_is_invertible_with_the_right_volume(name):
    with initialize_modules(0):
        module = flow_module(name, 3, 0, 2, (16,)).double()
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    transform = module().transform
    z, volume = transform.call_and_ladj(x)
    for i in range(5):
        jacobian = torch.autograd.functional.jacobian(lambda row: transform(row[None])[0], x[i])
        assert float(torch.linalg.slogdet(jacobian)[1]) == pytest.approx(
            float(volume[i].detach()), abs=1e-4
        )
    if name != "naf":  # inverted by bisection over a fixed interval only
        np.testing.assert_allclose(transform.inv(z).detach(), x, atol=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_every_family_maps_both_samples_to_finite_rows(name):
    fitted = normal_view().fitted(FlowModel(name=name, **TINY))
    assert fitted.pooled.shape == (200, 3)
    assert np.isfinite(fitted.pooled).all()
    facts = fitted.diagnostics
    assert facts["flow_epochs"] == 2
    assert all(np.isfinite(value) for value in facts.values())


def test_a_flow_learns_a_bent_density_up_to_its_entropy():
    """Pooled y = x² + 0.3 noise: H = 2 H(N(0, 1)) + log 0.3, plus the contexts' own."""
    rng = np.random.default_rng(0)
    n = 1500
    x = rng.normal(size=2 * n)
    g = np.stack([x, x**2 + 0.3 * rng.normal(size=2 * n)], axis=1)
    view = view_of(np.ones(n), g[:n], np.ones(n), g[n:])
    facts = view.fitted(FlowModel()).diagnostics
    entropy = 1 + np.log(2 * np.pi) + np.log(0.3)
    gaussian_fit = 0.5 * np.log(np.linalg.det(2 * np.pi * math.e * np.cov(g.T)))
    assert facts["flow_held_out_nll"] == pytest.approx(entropy, abs=0.2)
    assert gaussian_fit > entropy + 1
    assert facts["flow_train_nll"] == pytest.approx(facts["flow_held_out_nll"], abs=0.2)


def test_the_map_adds_no_noise_and_keeps_equal_rows_equal():
    rng = np.random.default_rng(0)
    atoms = np.array([[0.0], [1.0]])
    c = rng.normal(size=60)
    g, g1 = atoms[rng.integers(0, 2, 60)], atoms[rng.integers(0, 2, 60)]
    c[:2], g[:2] = 0.5, 1.0
    fitted = view_of(c, g, c, g1, shared=True).fitted(FlowModel(**TINY))
    np.testing.assert_array_equal(fitted.pooled[0], fitted.pooled[1])
    table = np.hstack([g, c[:, None]])
    np.testing.assert_allclose(fitted.transform(table), fitted.pooled[:60], atol=1e-5)


@pytest.mark.parametrize("discrete", [True, False])
def test_noise_goes_to_columns_with_few_values_only(discrete):
    """Noise has an entropy, and training sees it: with much of it, no density fits well."""
    rng = np.random.default_rng(0)
    g, g1 = rng.normal(size=(2, 300))
    if discrete:
        g, g1 = np.sign(g), np.sign(g1)
    view = view_of(np.ones(300), g, np.ones(300), g1)
    loud, quiet = (
        view.fitted(FlowModel(dequantise=s)).diagnostics["flow_train_nll"] for s in (3.0, 0.1)
    )
    # Atoms at ±1 under noise of 3 look like N(0, 10); without, they are two narrow peaks.
    assert (loud > quiet + 1.0) == discrete
    if not discrete:
        assert loud == pytest.approx(quiet, abs=0.15)


@pytest.mark.parametrize("name", ["maf", "nsf", "realnvp", "gf"])
@pytest.mark.parametrize("data", ["one column", "constant column", "two atoms", "few rows"])
def test_degenerate_data_work_or_are_refused_in_words(name, data):
    rng = np.random.default_rng(0)
    n = 20 if data == "few rows" else 60
    c, c1 = np.ones(n), np.ones(n)
    g, g1 = rng.normal(size=(2, n, 1))
    if data == "constant column":
        g, g1 = (np.hstack([a, np.full((n, 1), 2.0), a**2]) for a in (g, g1))
    if data == "two atoms":
        g, g1 = (rng.integers(0, 2, (n, 2)).astype(float) for _ in range(2))
    if data == "few rows":
        c, c1 = rng.normal(size=(2, n))
    view = view_of(c, g, c1, g1)
    model = FlowModel(name=name, epochs=3)
    if name == "realnvp" and data == "one column":
        with pytest.raises(UnavailableError, match="only one; use maf or nsf"):
            view.fitted(model)
        return
    assert np.isfinite(view.fitted(model).pooled).all()


@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (3, 2)])
def test_a_handful_of_rows_give_finite_features(shape):
    assert np.isfinite(normal_view(*shape).fitted(FlowModel(**TINY)).pooled).all()


def test_columns_that_repeat_each_other_stay_finite():
    rng = np.random.default_rng(0)
    g, g1 = rng.normal(size=(2, 100, 1))
    view = view_of(np.ones(100), np.hstack([g, g]), np.ones(100), np.hstack([g1, 2 * g1 - g1]))
    fitted = view.fitted(FlowModel(epochs=15))
    assert np.isfinite(fitted.pooled).all()


def test_the_conditional_form_leaves_the_context_as_it_is():
    rng = np.random.default_rng(0)
    c = rng.integers(0, 2, 80).astype(float)
    schema = Schema((Column("categorical", (0.0, 1.0)),), (Column(),) * 2)
    g, g1 = rng.normal(size=(2, 80, 2)) + 2 * c[:, None]
    view = view_of(c, g, c, g1, schema=schema, shared=True)
    fitted = view.fitted(FlowModel(conditional=True, epochs=15))
    assert fitted.pooled.shape == (160, 3)
    np.testing.assert_allclose(fitted.pooled[:, 2], np.concatenate([c, c]), atol=1e-12)
    # Given the context, its effect on the embedding is gone.
    means = [fitted.pooled[fitted.pooled[:, 2] == k, :2].mean(axis=0) for k in (0, 1)]
    assert np.abs(means[0] - means[1]).max() < 0.7
    with pytest.raises(ParameterError, match="keeps the context"):
        view.fitted(FlowModel(conditional=True, composition="tensor"))


def test_the_same_seed_gives_the_same_bits_whatever_torch_drew_before():
    first = normal_view().fitted(FlowModel(**TINY)).pooled
    torch.manual_seed(12345)
    torch.randn(7)
    state = torch.get_rng_state()
    second = normal_view().fitted(FlowModel(**TINY)).pooled
    np.testing.assert_array_equal(first, second)
    assert torch.equal(torch.get_rng_state(), state)
    other = normal_view()
    other._seed = DataSeed("test", 1, 0)
    assert not np.array_equal(first, other.fitted(FlowModel(**TINY)).pooled)


def test_fits_do_not_depend_on_what_was_fitted_before():
    view = normal_view()
    view.fitted(FlowModel(name="nsf", **TINY))
    after = view.fitted(FlowModel(**TINY)).pooled
    np.testing.assert_array_equal(after, normal_view().fitted(FlowModel(**TINY)).pooled)


def test_options_are_checked_by_name_and_range():
    given = validated(FEPW, {"flow_params": {"epochs": "3", "hidden": [20, 20]}})
    assert flow_model("nsf", "tensor", given["flow_params"]) == FlowModel(
        name="nsf", composition="tensor", epochs=3, hidden=(20, 20)
    )
    for wrong in ({"epoch": 3}, {"epochs": 0}, {"hidden": []}, {"held_out": 1.5}):
        with pytest.raises(ParameterError, match="flow_params"):
            validated(FEPW, {"flow_params": wrong})
    with pytest.raises(ParameterError, match="no option 'layers'"):
        flow_model("maf", "concat", {"layers": 3})


@pytest.mark.parametrize("options", [{}, {"conditional": True}, {"name": "nsf"}])
def test_no_tensor_stays_on_the_cpu_while_a_flow_trains_elsewhere(monkeypatch, options):
    """torch's meta device computes nothing but refuses tensors of another device."""
    built = []

    def spy(*args):
        built.append(flow_module(*args))
        return built[-1]

    monkeypatch.setattr("ope_estimators.flows.flow.flow_module", spy)
    with pytest.raises(RuntimeError, match="meta"):
        # The first thing that needs a number is the held-out loss: all steps before it ran.
        normal_view(device="meta").fitted(FlowModel(**TINY | options))
    trained = [p for p in built[0].parameters() if p.grad is not None]
    assert trained
    assert all(p.grad.device.type == "meta" for p in trained)


def test_a_cuda_flow_without_a_gpu_says_so():
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises((AssertionError, RuntimeError), match=r"(?i)cuda|nvidia"):
        normal_view(device="cuda").fitted(FlowModel(**TINY))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_on_a_gpu_a_flow_trains_there_and_agrees_with_the_cpu():
    flow = normal_view(device="cuda").fitted(FlowModel())
    assert all(p.device.type == "cuda" for p in flow.module.parameters())
    again = normal_view(device="cuda").fitted(FlowModel())
    np.testing.assert_array_equal(flow.pooled, again.pooled)
    cpu = normal_view().fitted(FlowModel())
    nll = [f.diagnostics["flow_held_out_nll"] for f in (flow, cpu)]
    assert nll[0] == pytest.approx(nll[1], abs=0.3)


# --- overlap


def test_overlap_is_one_for_equal_samples_and_zero_for_samples_apart():
    rng = np.random.default_rng(0)
    label = np.repeat([0, 1], [300, 900])
    points = rng.normal(size=(1200, 2))
    assert nearest_neighbor_overlap(points, label, rng) == pytest.approx(1.0, abs=0.15)
    assert nearest_neighbor_overlap(points + 20.0 * label[:, None], label, rng) == 0.0


def test_overlap_tells_ties_apart_at_random():
    rng = np.random.default_rng(0)
    label = np.repeat([0, 1], 400)
    points = rng.integers(0, 2, (800, 1)).astype(float)
    assert nearest_neighbor_overlap(points, label, rng) == pytest.approx(1.0, abs=0.2)
