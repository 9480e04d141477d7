"""The written gradient of affine autoregressive flows: the bits of torch's differentiation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ope_bench.testing.problems import problem as shipped_problem
from support import tiny_worlds as tiny

torch = pytest.importorskip("torch")
pytest.importorskip("zuko")

from ope_estimators.flows import affine_loss as module  # noqa: E402  needs torch to be of use
from ope_estimators.flows.affine_loss import affine_loss  # noqa: E402
from ope_estimators.flows.families import flow_module  # noqa: E402
from ope_estimators.flows.flow import FlowModel  # noqa: E402
from ope_estimators.flows.masks import fold_masks  # noqa: E402
from ope_estimators.learning.descent import initialize_modules  # noqa: E402


def flow(name: str = "maf", features: int = 3, context: int = 0) -> Any:
    with initialize_modules(1):
        made = flow_module(name, features, context, 3, (20, 10))
    fold_masks(made)
    return made


def differentiated(flow: Any, loss: Any) -> list[Any]:
    flow.zero_grad(set_to_none=True)
    loss.backward()
    return [loss.detach(), *(part.grad for part in flow.parameters())]


@pytest.mark.parametrize("rows", [128, 77, 1])
@pytest.mark.parametrize("context", [0, 2])
def test_loss_and_gradient_have_the_bits_of_torch(rows, context):
    made = flow(context=context)
    with initialize_modules(2):
        x, c = 3 * torch.randn(rows, 3), torch.randn(rows, context) if context else None
    wanted = differentiated(made, -made(c).log_prob(x).mean())
    loss = affine_loss(made)
    assert loss is not None
    for one, other in zip(differentiated(made, loss(x, c)), wanted, strict=True):
        assert torch.equal(one, other)
    # Outside of the masks nothing moves.
    assert any((part == 0).any() for part in wanted[1:])


def test_a_derivative_is_scaled_by_what_follows():
    made = flow()
    x, loss = torch.ones(5, 3), affine_loss(made)
    assert loss is not None
    once, twice = (differentiated(made, k * loss(x, None))[1:] for k in (1.0, 2.0))
    assert all(torch.equal(2 * one, other) for one, other in zip(once, twice, strict=True))


@pytest.mark.parametrize(
    ("name", "features"), [("nsf", 3), ("naf", 3), ("realnvp", 3), ("maf-norm", 3), ("maf", 1)]
)
def test_other_flows_are_differentiated_by_torch(name, features):
    assert affine_loss(flow(name, features)) is None


def test_a_trained_flow_has_the_bits_of_torch(monkeypatch):
    view = tiny.view_of(shipped_problem("continuous actions"))
    model = FlowModel(transforms=2, hidden=(16,), epochs=3)
    ours = model.fit(view, rng=np.random.default_rng(0), device="cpu")
    monkeypatch.setattr(module, "affine_loss", lambda _: None)
    theirs = model.fit(view, rng=np.random.default_rng(0), device="cpu")
    np.testing.assert_array_equal(ours.pooled, theirs.pooled)
    assert ours.diagnostics == theirs.diagnostics
