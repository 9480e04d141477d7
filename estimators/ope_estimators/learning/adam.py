"""Adam by torch's fused kernel, with a learning rate that falls to zero along a cosine."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch.optim.adam import adam

__all__ = ["Adam"]

FIRST, SECOND, TINY = 0.9, 0.999, 1e-8


class Adam:
    """Steps with the bits of `torch.optim.Adam(fused=True)` under `CosineAnnealingLR`.

    When torch's optimizers are made they import its compiler with SymPy, 800 modules: one to two
    seconds of every process that trains a model, counted as the time of its first fit.

    Parameters
    ----------
    parameters : all of one type, on one device.
    learning_rate : at the beginning.
    weight_decay : penalty on the squared parameters.
    epochs : number of calls of `end_epoch` after which the learning rate is zero.

    References
    ----------
    Adam: a method for stochastic optimization (Kingma and Ba, 2015).
    """

    def __init__(
        self,
        parameters: Iterable[torch.nn.Parameter],
        *,
        learning_rate: float,
        weight_decay: float,
        epochs: int,
    ) -> None:
        self.parameters = list(parameters)
        self.learning_rate, self.weight_decay, self.epochs = learning_rate, weight_decay, epochs
        self.epoch = 0
        self.means, self.squares = (
            [torch.zeros_like(one) for one in self.parameters] for _ in range(2)
        )
        # Each has its own: one without a gradient takes no step.
        self.steps = [
            torch.zeros((), dtype=torch.float32, device=one.device) for one in self.parameters
        ]

    def clear(self) -> None:
        """Forget the gradients."""
        for one in self.parameters:
            one.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Move the parameters that have a gradient."""
        rows = zip(self.parameters, self.means, self.squares, self.steps, strict=True)
        moved = [row for row in rows if row[0].grad is not None]
        if not moved:
            return
        parameters, means, squares, steps = map(list, zip(*moved, strict=True))
        adam(
            parameters,
            [one.grad for one in parameters],
            means,
            squares,
            [],
            steps,
            fused=True,
            amsgrad=False,
            lr=self.learning_rate,
            beta1=FIRST,
            beta2=SECOND,
            weight_decay=self.weight_decay,
            eps=TINY,
            maximize=False,
        )

    def end_epoch(self) -> None:
        """Lower the learning rate."""
        self.epoch += 1
        now, before = (
            1 + math.cos(math.pi * epoch / self.epochs) for epoch in (self.epoch, self.epoch - 1)
        )
        self.learning_rate *= now / before

    def keep(self, which: torch.Tensor) -> None:
        """Keep the moments of these entries of each parameter's first dimension."""
        self.means = [one[which] for one in self.means]
        self.squares = [one[which] for one in self.squares]
