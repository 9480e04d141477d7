"""Gradient descent of many models at once, the batched form of `train`.

Each model has its own rows, random stream and early stopping; schedule, draws and, up to rounding,
steps are those of training the model alone.

`torch.func.vmap` over the one-model loop takes 1.5 times as long (see `stacked_modules`);
results/performance/scripts/side_by_side_batched_flow.py measures the time that this saves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ope_bench import FloatArray, IntArray, OpeBenchError
from ope_estimators.learning.descent import LARGEST_GRADIENT, Descent, Schedule, not_finite

if TYPE_CHECKING:
    import torch

__all__ = ["RowLoss", "Training", "finish_or_error", "train_batched"]

T = TypeVar("T")

MOST = {"cpu": 25}
"""Models in one stack, by device: on a CPU, larger matrices do not fit the cache."""

RowLoss = Callable[..., Any]
"""(module, *tables) -> the loss of each row: (..., rows)."""


@dataclass(frozen=True, eq=False)
class Training:
    """One model to train, with its data.

    Parameters
    ----------
    module : trained in place.
    tables : arguments of the loss by row, each (n, ...).
    train, aside : the rows for training, and the held-out rows.
    schedule : schedule of the training.
    rng : draws the order of the rows, and noise.
    noise : deviations of the normal noise that is added to the first table's columns at every
        step, (d,); None for none.
    """

    module: torch.nn.Module
    tables: Sequence[torch.Tensor]
    train: IntArray
    aside: IntArray
    schedule: Schedule
    rng: np.random.Generator
    noise: FloatArray | None = None

    @property
    def shape(self) -> tuple[Any, ...]:
        """Return the shape; models of equal shape can be trained together."""
        sizes = tuple(tuple(table.shape[1:]) for table in self.tables)
        return sizes, len(self.train), len(self.aside), self.schedule, self.noise is None

    def drawn(self, rows: IntArray) -> list[Any]:
        """Return rows of the tables, with noise on the first table."""
        import torch

        first = self.tables[0]
        at = torch.from_numpy(rows).to(first.device)
        parts = [table[at] for table in self.tables]
        if self.noise is not None:
            draw = self.rng.standard_normal((len(rows), len(self.noise)), dtype=np.float32)
            scale = torch.as_tensor(self.noise, dtype=torch.float32, device=first.device)
            parts[0] = parts[0] + scale * torch.from_numpy(draw).to(first.device)
        return parts


def train_batched(trainings: Sequence[Training], loss: RowLoss) -> list[Descent | OpeBenchError]:
    """Train all models in place, like `train` each; return descents or errors, in the same order.

    Models of equal shape are trained at once.
    """
    shapes: dict[Any, list[int]] = {}
    for number, training in enumerate(trainings):
        shapes.setdefault(training.shape, []).append(number)
    outcome: dict[int, Descent | OpeBenchError] = {}
    groups = (
        numbers[at : at + most]
        for numbers in shapes.values()
        for most in [MOST.get(trainings[numbers[0]].tables[0].device.type, len(numbers))]
        for at in range(0, len(numbers), most)
    )
    for numbers in groups:
        done = _Together([trainings[number] for number in numbers], loss).run()
        outcome |= zip(numbers, done, strict=True)
    return [outcome[number] for number in range(len(trainings))]


def finish_or_error(
    finish: Callable[[Descent], T], descent: Descent | OpeBenchError
) -> T | OpeBenchError:
    """Finish a model after its descent, or return the error."""
    if isinstance(descent, OpeBenchError):
        return descent
    try:
        return finish(descent)
    except OpeBenchError as exc:
        return exc


class _Together:
    """Models of one shape in training; stopped ones are removed from the stack."""

    def __init__(self, trainings: Sequence[Training], loss: RowLoss) -> None:
        from ope_estimators.learning.adam import Adam
        from ope_estimators.learning.stacked_modules import Stack

        self.trainings = trainings
        self.loss = loss
        self.stack = Stack([training.module for training in trainings])
        parameters = self.stack.parameters()
        schedule = trainings[0].schedule
        self.device = parameters[0].device
        self.passes = schedule.passes(len(trainings[0].train))
        self.optimizer = Adam(
            parameters,
            learning_rate=schedule.learning_rate,
            weight_decay=schedule.weight_decay,
            epochs=self.passes,
        )
        self.kept = [parameter.detach().clone() for parameter in parameters]
        count = len(trainings)
        self.live = np.arange(count)
        self.best = np.full(count, math.inf)
        self.epochs = np.zeros(count, dtype=np.int64)
        self.waited = np.zeros(count, dtype=np.int64)

    def run(self) -> list[Descent | OpeBenchError]:
        import torch

        schedule = self.trainings[0].schedule
        # The same noise at every epoch, so that held-out losses differ by the parameters alone.
        aside = _stacked([training.drawn(training.aside) for training in self.trainings])
        for _ in range(self.passes):
            self._epoch(schedule.batch_size)
            self.optimizer.end_epoch()
            with torch.no_grad():
                losses = self.loss(self.stack.module, *aside).mean(-1).double().cpu().numpy()
            stay = self._judge(losses, schedule.patience)
            if not stay.any():
                break
            if not stay.all():
                which = torch.from_numpy(np.flatnonzero(stay)).to(self.device)
                self._keep(which)
                aside = [table[which] for table in aside]
                self.live = self.live[stay]
        return [self._outcome(number) for number in range(len(self.trainings))]

    def _epoch(self, batch_size: int) -> None:
        import torch

        rows = []
        for number in self.live.tolist():
            training = self.trainings[number]
            # One draw per epoch uses the stream like one draw per step.
            rows.append(training.drawn(training.rng.permutation(training.train)))
        tables = _stacked(rows)
        parameters = self.stack.parameters()
        for batch in zip(*(torch.split(table, batch_size, 1) for table in tables), strict=True):
            self.optimizer.clear()
            # The sum over models, so that each model's gradient is that of its own mean.
            self.loss(self.stack.module, *(part.contiguous() for part in batch)).mean(
                -1
            ).sum().backward()
            _clip(parameters)
            self.optimizer.step()

    def _judge(self, losses: FloatArray, patience: int) -> Any:
        """Record better losses; return which models continue: (live,)."""
        import torch

        live = self.live
        self.epochs[live] += 1
        better = losses < self.best[live]
        self.best[live[better]] = losses[better]
        self.waited[live] = np.where(better, 0, self.waited[live] + 1)
        ours, theirs = (
            torch.from_numpy(index).to(self.device)
            for index in (live[better], np.flatnonzero(better))
        )
        for kept, parameter in zip(self.kept, self.stack.parameters(), strict=True):
            kept[ours] = parameter.detach()[theirs]
        return self.waited[live] < patience

    def _keep(self, which: torch.Tensor) -> None:
        self.stack.keep(which)
        self.optimizer.keep(which)

    def _outcome(self, number: int) -> Descent | OpeBenchError:
        epochs = int(self.epochs[number])
        if not math.isfinite(self.best[number]):
            return not_finite(self.trainings[number].module, epochs)
        self.stack.unload(number, self.kept)
        return Descent(epochs, float(self.best[number]))


def _stacked(rows: Sequence[Sequence[torch.Tensor]]) -> list[torch.Tensor]:
    """Stack the tables of all models: each (k, rows, ...)."""
    import torch

    return [torch.stack(parts) for parts in zip(*rows, strict=True)]


def _clip(parameters: Sequence[torch.nn.Parameter]) -> None:
    """Clip each model's gradient norm to `LARGEST_GRADIENT`, like `clip_grad_norm_`."""
    import torch

    slopes = [one.grad for one in parameters if one.grad is not None]
    norms = torch.stack([torch.linalg.vector_norm(one.flatten(1), dim=1) for one in slopes])
    norm = torch.linalg.vector_norm(norms, dim=0)
    factor = (LARGEST_GRADIENT / (norm + 1e-6)).clamp(max=1.0)
    # On a GPU, testing the condition synchronizes and costs more than the multiplication.
    if norm.device.type != "cpu" or bool((factor < 1.0).any()) or bool(norm.isnan().any()):
        for one in slopes:
            one.mul_(factor.view(-1, *[1] * (one.dim() - 1)))
