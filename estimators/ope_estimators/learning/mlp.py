"""Multilayer perceptrons in torch, with scikit-learn's methods."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Self

import numpy as np
import torch

from ope_bench import FloatArray, IntArray
from ope_estimators.learning.batched_descent import Training
from ope_estimators.learning.descent import Schedule, initialize_modules, train

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = ["MLPClassifier", "MLPRegressor", "row_log_loss"]


class _MLP:
    """Base of perceptrons: standardized columns, ReLU layers, Adam, early stopping.

    Parameters
    ----------
    hidden : width of each hidden layer.
    epochs, batch_size, learning_rate, weight_decay, patience : as `Schedule`.
    held_out : share of the rows for early stopping; of the units, if ``fit`` gets units.
    random_state : seed of the initial parameters, the split and the order of the rows.
    device : ``cpu`` or ``cuda``.
    """

    takes_units = True
    """Whether ``fit`` accepts the rows' units as a third argument."""

    def __init__(
        self,
        hidden: Sequence[int] = (100, 100),
        epochs: int = 100,
        batch_size: int = 256,
        learning_rate: float = 2e-3,
        weight_decay: float = 1e-4,
        patience: int = 10,
        held_out: float = 0.2,
        *,
        random_state: int = 0,
        device: str = "cpu",
    ) -> None:
        self.hidden = hidden
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.patience = patience
        self.held_out = held_out
        self.random_state = random_state
        self.device = device

    def _fit(self, features: ArrayLike, outcome: FloatArray, unit: IntArray | None) -> None:
        begun = self._begin(features, outcome, unit)
        x, y = begun.tables
        aside = torch.from_numpy(begun.aside).to(self.device)

        def loss(rows: torch.Tensor) -> torch.Tensor:
            return self._loss(self.module_(x[rows])[:, 0], y[rows])

        train(
            self.module_,
            loss,
            lambda: loss(aside),
            rows=begun.train,
            schedule=begun.schedule,
            rng=begun.rng,
            device=self.device,
        )

    def _begin(self, features: ArrayLike, outcome: FloatArray, unit: IntArray | None) -> Training:
        """Prepare the untrained network and its data."""
        table = np.asarray(features, dtype=np.float64)
        rng = np.random.default_rng(self.random_state)
        self.center_ = table.mean(axis=0)
        spread = table.std(axis=0)
        self.scale_ = np.where(spread > 0, spread, 1.0)
        with initialize_modules(int(rng.integers(2**31))):
            self.module_ = _layers(table.shape[1], self.hidden).to(self.device)
        x = self._tensor(table)
        y = torch.as_tensor(outcome, dtype=torch.float32, device=self.device)
        rows = np.arange(len(table)) if unit is None else unit
        train, held = _split(rows, self.held_out, rng)
        schedule = Schedule(
            self.epochs, self.batch_size, self.learning_rate, self.weight_decay, self.patience
        )
        return Training(self.module_, (x, y), train, held, schedule, rng)

    def _loss(self, output: torch.Tensor, outcome: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError

    def _tensor(self, table: FloatArray) -> torch.Tensor:
        scaled = (table - self.center_) / self.scale_
        return torch.as_tensor(scaled, dtype=torch.float32, device=self.device)

    def _output(self, features: ArrayLike) -> FloatArray:
        """Return the last layer at each row: (k,)."""
        table = np.asarray(features, dtype=np.float64)
        with torch.no_grad():
            parts = [self.module_(self._tensor(part))[:, 0] for part in _chunks(table)]
        return torch.cat(parts).double().cpu().numpy()


class MLPClassifier(_MLP):
    """P(1|x) = sigmoid(f(x)), f a perceptron fitted by log-loss; parameters as `_MLP`."""

    def fit(self, features: ArrayLike, label: ArrayLike, unit: IntArray | None = None) -> Self:
        """Fit to ``features`` (k, d), ``label`` (k,) of 0 and 1, and optional ``unit`` (k,)."""
        self.classes_: IntArray = np.array([0, 1])
        self._fit(features, np.asarray(label, dtype=np.float64), unit)
        return self

    def begin(
        self, features: ArrayLike, label: ArrayLike, unit: IntArray | None = None
    ) -> Training:
        """Prepare the training for `train_batched` with `row_log_loss`, instead of ``fit``."""
        self.classes_ = np.array([0, 1])
        return self._begin(features, np.asarray(label, dtype=np.float64), unit)

    def decision_function(self, features: ArrayLike) -> FloatArray:
        """Return the log-odds f(x): (k,)."""
        return self._output(features)

    def predict_proba(self, features: ArrayLike) -> FloatArray:
        """Return the probabilities of both classes: (k, 2)."""
        margin = self._output(features)
        return np.exp(-np.logaddexp(0.0, np.stack([margin, -margin], axis=1)))

    def predict(self, features: ArrayLike) -> IntArray:
        """Return the more probable class: (k,)."""
        return (self._output(features) > 0).astype(np.int64)

    def _loss(self, output: torch.Tensor, outcome: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.binary_cross_entropy_with_logits(output, outcome)


def row_log_loss(module: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return a classifier's loss at each row: (..., rows)."""
    return torch.nn.functional.binary_cross_entropy_with_logits(
        module(x)[..., 0], y, reduction="none"
    )


class MLPRegressor(_MLP):
    """E[y|x] by a perceptron fitted by squared error; parameters as `_MLP`."""

    def fit(self, features: ArrayLike, outcome: ArrayLike, unit: IntArray | None = None) -> Self:
        """Fit to ``features`` (k, d), ``outcome`` (k,), and optional ``unit`` (k,)."""
        y = np.asarray(outcome, dtype=np.float64)
        self.outcome_center_ = float(y.mean())
        self.outcome_scale_ = float(y.std()) or 1.0
        self._fit(features, (y - self.outcome_center_) / self.outcome_scale_, unit)
        return self

    def predict(self, features: ArrayLike) -> FloatArray:
        """Return the fitted mean: (k,)."""
        return self.outcome_center_ + self.outcome_scale_ * self._output(features)

    def _loss(self, output: torch.Tensor, outcome: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.mse_loss(output, outcome)


CHUNK_ROWS = 1 << 14


def _chunks(table: FloatArray) -> list[FloatArray]:
    """Split rows into pieces with small activations; one empty piece for no rows."""
    return [table[at : at + CHUNK_ROWS] for at in range(0, max(1, len(table)), CHUNK_ROWS)]


def _layers(width: int, hidden: Sequence[int]) -> torch.nn.Sequential:
    sizes = [width, *hidden]
    layers: list[torch.nn.Module] = []
    for before, after in pairwise(sizes):
        layers += [torch.nn.Linear(before, after), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(sizes[-1], 1))


def _split(unit: IntArray, share: float, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Split rows by unit into training and held-out rows; fewer than five units are both."""
    units, of_row = np.unique(unit, return_inverse=True)
    n = len(units)
    order = rng.permutation(n)
    if n < len(unit):
        # The index of each row's unit.
        place = np.empty(n, dtype=np.int64)
        place[order] = np.arange(n)
        rows = np.argsort(place[of_row], kind="stable")
        aside = int((place[of_row] < round(share * n)).sum()) if n >= 5 else 0
        return (rows[aside:], rows[:aside]) if aside else (rows, rows)
    aside = round(share * n) if n >= 5 else 0
    return (order[aside:], order[:aside]) if aside else (order, order)
