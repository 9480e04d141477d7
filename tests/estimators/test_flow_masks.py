"""Flows trained alone: no product with a mask in a pass, and the bits of masked layers."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

from ope_bench.testing.problems import problem as shipped_problem
from support import tiny_worlds as tiny

torch = pytest.importorskip("torch")
zuko = pytest.importorskip("zuko")

from ope_estimators.flows import flow as flows  # noqa: E402  needs torch to be of use
from ope_estimators.flows.families import flow_module  # noqa: E402
from ope_estimators.flows.masks import fold_masks  # noqa: E402
from ope_estimators.learning.descent import Schedule, initialize_modules, train  # noqa: E402

MASKED = ("maf", "nsf", "naf", "bpf")


def masked_layers(module: Any) -> int:
    return sum(isinstance(layer, zuko.nn.MaskedLinear) for layer in module.modules())


def trained(module: Any, rows: Any, context: Any) -> list[Any]:
    """Losses of every step, and of the rows at the end."""
    losses = []

    def loss(at: Any) -> Any:
        given = None if context is None else context[at]
        value = -module(given).log_prob(rows[at]).mean()
        losses.append(value.detach())
        return value

    everything = np.arange(len(rows))
    schedule = Schedule(3, 50, 1e-2, 1e-2, 5)
    rng = np.random.default_rng(0)
    train(
        module,
        loss,
        lambda: loss(torch.from_numpy(everything)),
        rows=everything,
        schedule=schedule,
        rng=rng,
        device="cpu",
    )
    return losses


@pytest.mark.parametrize("name", MASKED)
@pytest.mark.parametrize("width", [0, 2])
def test_folded_layers_train_to_the_bits_of_masked_ones(name, width):
    with initialize_modules(1):
        masked = flow_module(name, 3, width, 2, (20, 20))
        rows, given = torch.randn(150, 3), torch.randn(150, 2)
    folded = copy.deepcopy(masked)
    state = torch.get_rng_state()
    fold_masks(folded)
    assert torch.equal(torch.get_rng_state(), state)
    assert masked_layers(masked) > 0 == masked_layers(folded)
    context = given if width else None
    for one, other in zip(
        trained(masked, rows, context), trained(folded, rows, context), strict=True
    ):
        assert torch.equal(one, other)


def test_a_flow_trained_alone_has_the_bits_of_one_with_masks(monkeypatch):
    view = tiny.view_of(shipped_problem("continuous actions"))
    model = flows.FlowModel(transforms=2, hidden=(16,), epochs=3)
    folded = model.fit(view, rng=np.random.default_rng(0), device="cpu")
    assert masked_layers(folded.module) == 0
    monkeypatch.setattr(flows, "fold_masks", lambda module: None)
    masked = model.fit(view, rng=np.random.default_rng(0), device="cpu")
    assert masked_layers(masked.module) > 0
    np.testing.assert_array_equal(folded.pooled, masked.pooled)
    assert folded.diagnostics == masked.diagnostics
