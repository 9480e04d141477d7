"""Adam in the training loops: the bits of torch's own, without its compiler."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from ope_estimators.learning.adam import Adam  # noqa: E402
from ope_estimators.learning.batched_descent import train_batched  # noqa: E402
from ope_estimators.learning.mlp import MLPClassifier, row_log_loss  # noqa: E402

EPOCHS, STEPS, COUNT = 4, 3, 5


def gradients(number: int) -> list[Any]:
    """Gradients of three parameters; the last has none at every other step, nor at the first."""
    drawn = torch.Generator().manual_seed(number)
    shapes = (COUNT, 3, 2), (COUNT, 70), (COUNT,)
    made = [torch.randn(shape, generator=drawn) for shape in shapes]
    return [*made[:2], made[2] if number % 2 else None]


def parameters() -> list[Any]:
    return [torch.nn.Parameter(one) for one in gradients(1_001) if one is not None]


def set_gradients(ours: list[Any], number: int) -> None:
    for one, slope in zip(ours, gradients(number), strict=True):
        one.grad = slope


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_steps_have_the_bits_of_torchs_own(weight_decay):
    own, torchs = parameters(), parameters()
    adam = Adam(own, learning_rate=0.01, weight_decay=weight_decay, epochs=EPOCHS)
    reference = torch.optim.Adam(torchs, lr=0.01, weight_decay=weight_decay, fused=True)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(reference, T_max=EPOCHS)
    for epoch in range(EPOCHS):
        for number in range(STEPS):
            set_gradients(own, STEPS * epoch + number)
            set_gradients(torchs, STEPS * epoch + number)
            adam.step()
            reference.step()
        adam.end_epoch()
        cosine.step()
        assert adam.learning_rate == reference.param_groups[0]["lr"]
        for one, other in zip(own, torchs, strict=True):
            assert torch.equal(one, other)
    assert adam.learning_rate == 0.0
    adam.clear()
    assert [one.grad for one in own] == [None, None, None]


def test_models_that_stay_go_on_with_their_own_moments():
    stay = torch.tensor([0, 2, 3])
    whole, part = parameters(), parameters()
    alone, kept = (
        Adam(one, learning_rate=0.01, weight_decay=0.0, epochs=9) for one in (whole, part)
    )
    for number in range(4):
        if number == 2:
            kept.keep(stay)
            for one in part:
                one.grad, one.data = None, one.data[stay]
        slopes = gradients(number)
        for one, other, slope in zip(whole, part, slopes, strict=True):
            one.grad = slope
            other.grad = slope if slope is None or number < 2 else slope[stay]
        alone.step()
        kept.step()
    for one, other in zip(whole, part, strict=True):
        assert torch.equal(one[stay], other)


@pytest.mark.parametrize("batched", [False, True])
def test_training_imports_no_compiler(batched, monkeypatch):
    """Where torch's own optimizers have been made before, as in this file, theirs is loaded."""

    def refuse(*arguments, **options):
        raise AssertionError

    monkeypatch.setattr(torch.optim.Optimizer, "__init__", refuse)
    monkeypatch.setitem(sys.modules, "torch._dynamo", None)
    x = np.random.default_rng(0).normal(size=(40, 2))
    models = [MLPClassifier(epochs=2) for _ in range(2)]
    if batched:
        train_batched([one.begin(x, x[:, 0] > 0) for one in models], row_log_loss)
    else:
        models[0].fit(x, x[:, 0] > 0)
    assert np.isfinite(models[0].decision_function(x)).all()
