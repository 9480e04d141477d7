"""Gradient descent with early stopping, the training loop of all torch models."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ope_bench import IntArray, OpeBenchError

if TYPE_CHECKING:
    import torch

__all__ = ["Descent", "Schedule", "train", "initialize_modules", "not_finite"]

LARGEST_GRADIENT = 10.0


@dataclass(frozen=True)
class Schedule:
    """Schedule of a training.

    Parameters
    ----------
    epochs : passes over the rows, at most.
    batch_size : rows per step.
    learning_rate : of Adam, falling to zero along a cosine.
    weight_decay : penalty on the squared parameters.
    patience : epochs without a better held-out loss before training stops.
    max_steps : bound on the total number of steps; with many rows there are fewer passes.
    """

    epochs: int
    batch_size: int
    learning_rate: float
    weight_decay: float
    patience: int
    max_steps: int = 1_000_000

    def passes(self, rows: int) -> int:
        """Return the number of epochs over this many rows, at least one.

        >>> Schedule(30, 100, 1e-3, 0.0, 5, max_steps=1_000).passes(10_000)
        10
        """
        return max(1, min(self.epochs, self.max_steps // math.ceil(rows / self.batch_size)))


@dataclass(frozen=True)
class Descent:
    """Result of a training.

    Parameters
    ----------
    epochs : number of passes.
    held_out : the best held-out loss, that of the returned parameters.
    """

    epochs: int
    held_out: float


@contextlib.contextmanager
def initialize_modules(seed: int) -> Iterator[None]:
    """Initialize modules that are built inside from ``seed``; restore torch's own stream.

    Modules are built on the CPU and then moved: a device's own generator is never used, so that
    initial parameters are the same on every device.
    """
    import torch

    state = torch.get_rng_state()
    torch.default_generator.manual_seed(seed)
    try:
        yield
    finally:
        torch.set_rng_state(state)


def train(
    module: torch.nn.Module,
    loss: Callable[[torch.Tensor], torch.Tensor],
    held_out: Callable[[], torch.Tensor],
    *,
    rows: IntArray,
    schedule: Schedule,
    rng: np.random.Generator,
    device: str,
) -> Descent:
    """Train in place, and keep the parameters of the epoch with the best held-out loss.

    Parameters
    ----------
    loss : mean loss over the rows of an index tensor
    held_out : mean loss over the held-out rows
    rows : indices of the rows for training
    rng : draws the order of the rows

    Raises
    ------
    OpeBenchError : the held-out loss was never finite.
    """
    import torch

    from ope_estimators.learning.adam import Adam

    # Named once: a walk through all modules at every step takes as long as clipping.
    parameters = list(module.parameters())
    passes = schedule.passes(len(rows))
    optimizer = Adam(
        parameters,
        learning_rate=schedule.learning_rate,
        weight_decay=schedule.weight_decay,
        epochs=passes,
    )
    best, kept, waited, epoch = math.inf, None, 0, 0
    while epoch < passes and waited < schedule.patience:
        epoch += 1
        order = torch.from_numpy(rng.permutation(rows)).to(device)
        module.train()
        for batch in torch.split(order, schedule.batch_size):
            optimizer.clear()
            loss(batch).backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(parameters, LARGEST_GRADIENT)
            optimizer.step()
        optimizer.end_epoch()
        module.eval()
        with torch.no_grad():
            now = float(held_out())
        if now < best:
            best, waited = now, 0
            kept = {name: value.clone() for name, value in module.state_dict().items()}
        else:
            waited += 1
    if kept is None:
        raise not_finite(module, epoch)
    module.load_state_dict(kept)
    return Descent(epoch, best)


def not_finite(module: torch.nn.Module, epochs: int) -> OpeBenchError:
    """Return the error that the held-out loss was never finite."""
    return OpeBenchError(
        f"{type(module).__name__}: the held-out loss was not finite after {epochs} epochs; "
        "lower the learning rate"
    )
