"""Gradient descent with early stopping: the one loop that trains every torch model here."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ope_bench.arrays import IntArray
from ope_bench.errors import OpeBenchError

if TYPE_CHECKING:
    import torch

__all__ = ["Descent", "Schedule", "descend", "initialised", "not_finite"]

LARGEST_GRADIENT = 10.0


@dataclass(frozen=True)
class Schedule:
    """How long and how fast to train.

    Parameters
    ----------
    epochs : passes over the rows, at most.
    batch_size : rows a step.
    learning_rate : of Adam, falling to zero along a cosine.
    weight_decay : penalty on the squared parameters.
    patience : epochs without a better held-out loss before it stops.
    max_steps : bound on the steps of all epochs together, so that many rows need fewer passes.
    """

    epochs: int
    batch_size: int
    learning_rate: float
    weight_decay: float
    patience: int
    max_steps: int = 1_000_000

    def passes(self, rows: int) -> int:
        """Epochs over so many rows, at least one.

        >>> Schedule(30, 100, 1e-3, 0.0, 5, max_steps=1_000).passes(10_000)
        10
        """
        return max(1, min(self.epochs, self.max_steps // math.ceil(rows / self.batch_size)))


@dataclass(frozen=True)
class Descent:
    """How the training went.

    Parameters
    ----------
    epochs : passes made.
    held_out : the best held-out loss, that of the parameters kept.
    """

    epochs: int
    held_out: float


@contextlib.contextmanager
def initialised(seed: int) -> Iterator[None]:
    """Modules built inside draw their parameters from ``seed``; torch's own stream is put back.

    Modules are built on the CPU and moved: a device's own generator is never used, so that every
    device starts from the same parameters.
    """
    import torch

    state = torch.get_rng_state()
    torch.default_generator.manual_seed(seed)
    try:
        yield
    finally:
        torch.set_rng_state(state)


def descend(
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
    held_out : mean loss over the rows kept aside
    rows : which rows to train on
    rng : the order of the rows

    Raises
    ------
    OpeBenchError : the held-out loss was never finite.
    """
    import torch

    optimizer = torch.optim.Adam(
        module.parameters(),
        lr=schedule.learning_rate,
        weight_decay=schedule.weight_decay,
        # One kernel for all parameters: a quarter of a small flow's step.
        fused=device in ("cpu", "cuda"),
    )
    passes = schedule.passes(len(rows))
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=passes)
    best, kept, waited, epoch = math.inf, None, 0, 0
    while epoch < passes and waited < schedule.patience:
        epoch += 1
        order = torch.from_numpy(rng.permutation(rows)).to(device)
        module.train()
        for batch in torch.split(order, schedule.batch_size):
            optimizer.zero_grad(set_to_none=True)
            loss(batch).backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(module.parameters(), LARGEST_GRADIENT)
            optimizer.step()
        cosine.step()
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
    """Nothing was learnt."""
    return OpeBenchError(
        f"{type(module).__name__}: the held-out loss was not finite after {epochs} epochs; "
        "lower the learning rate"
    )
