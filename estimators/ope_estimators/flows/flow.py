"""A normalizing flow over both samples, as a shared fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import numpy.typing as npt
from annotated_types import Ge, Gt, Len, Lt
from typing_extensions import TypedDict  # pydantic refuses the one of typing before Python 3.12

from ope_bench import (
    Diagnostic,
    FloatArray,
    IntArray,
    OpeBenchError,
    ParameterError,
    UnavailableError,
    View,
)
from ope_estimators.features.composition import Composition, Features, compose, separate
from ope_estimators.flows.families import FlowName, flow_module, is_trained_alone
from ope_estimators.flows.masks import fold_masks
from ope_estimators.flows.overlap import nearest_neighbor_overlap
from ope_estimators.learning.batched_descent import Training, finish_or_error, train_batched
from ope_estimators.learning.descent import Descent, Schedule, initialize_modules, train
from ope_estimators.learning.folds import folds

if TYPE_CHECKING:
    import torch

__all__ = ["FittedFlow", "FlowModel", "FlowOptions", "flow_model"]


class FlowOptions(TypedDict, total=False):
    """The parameters of a `FlowModel` that an estimator passes on by name."""

    __pydantic_config__ = {"extra": "forbid"}  # type: ignore[misc]  # noqa: RUF012  read by pydantic

    transforms: Annotated[int, Ge(1)]
    hidden: Annotated[list[Annotated[int, Ge(1)]], Len(1)]
    epochs: Annotated[int, Ge(1)]
    batch_size: Annotated[int, Ge(1)]
    learning_rate: Annotated[float, Gt(0)]
    weight_decay: Annotated[float, Ge(0)]
    patience: Annotated[int, Ge(1)]
    max_steps: Annotated[int, Ge(1)]
    held_out: Annotated[float, Ge(0), Lt(1)]
    dequantise: Annotated[float, Ge(0)]
    conditional: bool


@dataclass(frozen=True)
class FlowModel:
    """An invertible map n that makes the pooled features standard normal.

        maximize mean log t(n(x)) + log |det dn/dx|,   t the standard normal density

    over logged and target rows together, without their labels. The ratio of densities is the same
    before and after; the overlap of the samples for a classifier changes. Features with repeated
    values have no density, so that the likelihood has no finite maximum: in training, such columns
    get new noise at every step. The fitted map adds no noise and maps equal rows to equal rows.

    Parameters
    ----------
    name : family.
    composition : of embedding and context, the flow's input.
    transforms : number of composed maps.
    hidden : width of the hidden layers of each map's network.
    epochs, batch_size, learning_rate, weight_decay, patience, max_steps : as `Schedule`.
    held_out : share of the rows (groups of rows, where contexts are shared) for early stopping;
        with 0, all rows are for training, and the epoch with the best likelihood of them is kept.
    dequantise : noise on columns with few values, in their standard deviations.
    conditional : map the embedding given the context, and do not change the context.

    Assumptions: enough rows for the network; features without exact collinearity.
    Fails when: the held-out likelihood is never finite (OpeBenchError).

    References: Featurized Density Ratio Estimation (Choi, Liao and Ermon, 2021); Masked
    Autoregressive Flow for Density Estimation (Papamakarios, Pavlakou and Murray, 2017).
    """

    name: FlowName = "maf"
    composition: Composition = "concat"
    transforms: int = 5
    hidden: tuple[int, ...] = (100, 100)
    epochs: int = 40
    batch_size: int = 128
    learning_rate: float = 3e-3
    weight_decay: float = 1e-6
    patience: int = 5
    max_steps: int = 2_000
    held_out: float = 0.2
    dequantise: float = 0.05
    conditional: bool = False

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> FittedFlow:
        """Fit the map, and map both samples' rows."""
        prepared = self.begin(view, rng=rng, device=device)
        return prepared.finished(self._train(prepared))

    def complete(
        self, prepared: Sequence[PreparedFlow], *, device: str
    ) -> list[FittedFlow | OpeBenchError]:
        """Train the maps of many replicates together, where the family allows it."""
        if is_trained_alone(self.name):
            return [self._alone(one) for one in prepared]
        trainings = [
            Training(
                one.flow.module,
                [table for table in one.flow.tensors() if table is not None],
                one.train,
                one.aside,
                self.schedule(),
                one.rng,
                one.noise,
            )
            for one in prepared
        ]
        outcomes = train_batched(trainings, _row_nll)
        return [
            finish_or_error(one.finished, descent)
            for one, descent in zip(prepared, outcomes, strict=True)
        ]

    def _alone(self, prepared: PreparedFlow) -> FittedFlow | OpeBenchError:
        try:
            return prepared.finished(self._train(prepared))
        except OpeBenchError as exc:
            return exc

    def begin(self, view: View, *, rng: np.random.Generator, device: str) -> PreparedFlow:
        """Prepare the untrained map and its data."""
        features, context = self._inputs(view)
        rows = _standardize(features.pooled)
        given = _standardize(context) if context is not None else None
        width = 0 if given is None else given.table.shape[1]
        with initialize_modules(int(rng.integers(2**31))):
            module = flow_module(
                self.name, rows.table.shape[1], width, self.transforms, self.hidden
            )
        fitted = FittedFlow(module.to(device), rows, given, device)
        held = np.zeros(view.n + view.m, dtype=np.bool_)
        if self.held_out:
            held = np.concatenate(folds(view, max(2, round(1 / self.held_out)), rng)) == 0
        noise = np.where(features.discrete, self.dequantise, 0.0)
        label = np.repeat([0, 1], [view.n, view.m])
        return PreparedFlow(fitted, label, held, noise, rng)

    def schedule(self) -> Schedule:
        """Return the schedule of the training."""
        return Schedule(
            self.epochs,
            self.batch_size,
            self.learning_rate,
            self.weight_decay,
            self.patience,
            self.max_steps,
        )

    def _inputs(self, view: View) -> tuple[Features, FloatArray | None]:
        if not self.conditional:
            return compose(view, self.composition), None
        if self.composition != "concat":
            msg = f"a conditional flow keeps the context, so not '{self.composition}'"
            raise ParameterError(msg)
        embedding, context = separate(view)
        if not embedding.discrete.size:
            msg = "a conditional flow needs an embedding that varies"
            raise UnavailableError(msg)
        return embedding, context.pooled if context.discrete.size else None

    def _train(self, prepared: PreparedFlow) -> Descent:
        import torch

        flow, noise, rng = prepared.flow, prepared.noise, prepared.rng
        fold_masks(flow.module)
        # Imported when a flow is trained, as torch is.
        from ope_estimators.flows.affine_loss import affine_loss

        written_out = affine_loss(flow.module)
        x, c = flow.tensors()
        scale = torch.as_tensor(noise, dtype=torch.float32, device=flow.device)

        def nll(rows: torch.Tensor, jitter: torch.Tensor) -> torch.Tensor:
            return -flow.log_density(x[rows] + jitter, None if c is None else c[rows]).mean()

        def step(rows: torch.Tensor) -> torch.Tensor:
            jitter = drawn(len(rows))
            if written_out is None:
                return nll(rows, jitter)
            return written_out(x[rows] + jitter, None if c is None else c[rows])

        def drawn(count: int) -> torch.Tensor:
            draw = rng.standard_normal((count, len(noise)), dtype=np.float32)
            return scale * torch.from_numpy(draw).to(flow.device)

        aside_rows = torch.from_numpy(prepared.aside).to(flow.device)
        # The same noise at every epoch, so that held-out losses differ by the parameters alone.
        aside_noise = drawn(len(prepared.aside))
        return train(
            flow.module,
            step,
            lambda: nll(aside_rows, aside_noise),
            rows=prepared.train,
            schedule=self.schedule(),
            rng=rng,
            device=flow.device,
        )


@dataclass(frozen=True, eq=False)
class PreparedFlow:
    """An untrained flow and its data.

    Parameters
    ----------
    flow : the untrained flow.
    label : (n + m,), 0 for logged rows and 1 for target rows
    held : (n + m,), the held-out rows
    noise : (d,), deviations of the noise on each column
    rng : generator of the fit.
    """

    flow: FittedFlow
    label: npt.NDArray[np.int64]
    held: npt.NDArray[np.bool_]
    noise: FloatArray
    rng: np.random.Generator

    @property
    def train(self) -> IntArray:
        """Return the rows for training."""
        return np.flatnonzero(~self.held) if (~self.held).sum() > 1 else np.arange(len(self.held))

    @property
    def aside(self) -> IntArray:
        """Return the held-out rows."""
        return np.flatnonzero(self.held) if self.held.any() else self.train

    def finished(self, descent: Descent) -> FittedFlow:
        """Return the trained flow."""
        self.flow.finish(descent, self.label, self.held, self.noise, self.rng)
        return self.flow


def _row_nll(module: Any, x: Any, c: Any = None) -> Any:
    """Return minus the log-density of each row."""
    return -module(c).log_prob(x)


@dataclass(frozen=True, eq=False)
class _Standardized:
    """Columns in standard deviations; a constant column becomes zero."""

    table: FloatArray
    center: FloatArray
    scale: FloatArray


def _standardize(table: FloatArray) -> _Standardized:
    center, scale = table.mean(axis=0), table.std(axis=0)
    # The deviation of a constant column may be a rounding error instead of zero.
    scale = np.where(scale > 1e-12 * (1.0 + np.abs(center)), scale, 1.0)
    return _Standardized((table - center) / scale, center, scale)


CHUNK_ROWS = 1 << 14


class FittedFlow:
    """A flow on a device, with the rows that it was fitted on.

    Parameters
    ----------
    module : the flow.
    rows : its input, standardized, logged rows first.
    given : the context of a conditional flow, standardized.
    device : device of module and tensors.

    Attributes
    ----------
    pooled : (n + m, d), the rows under the map, and the context of a conditional flow
    diagnostics : likelihoods, epochs, overlap before and after
    """

    pooled: FloatArray
    diagnostics: dict[str, Diagnostic]

    def __init__(
        self, module: Any, rows: _Standardized, given: _Standardized | None, device: str
    ) -> None:
        self.module = module
        self.device = device
        self._rows = rows
        self._given = given

    def tensors(self) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return the standardized rows and contexts, on the device."""
        given = None if self._given is None else self._tensor(self._given.table)
        return self._tensor(self._rows.table), given

    def log_density(self, x: torch.Tensor, c: torch.Tensor | None) -> torch.Tensor:
        """Return the log-density of standardized rows: (k,)."""
        density: torch.Tensor = self.module(c).log_prob(x)
        return density

    def transform(self, table: FloatArray, context: FloatArray | None = None) -> FloatArray:
        """Map rows in their original units: (k, d)."""
        import torch

        x = self._tensor((table - self._rows.center) / self._rows.scale)
        c = None
        if self._given is not None and context is not None:
            c = self._tensor((context - self._given.center) / self._given.scale)
        parts = []
        with torch.no_grad():
            for at in range(0, len(x), CHUNK_ROWS):
                rows = slice(at, at + CHUNK_ROWS)
                parts.append(self.module(None if c is None else c[rows]).transform(x[rows]))
        return torch.cat(parts).double().cpu().numpy()

    def finish(
        self,
        descent: Descent,
        label: npt.NDArray[np.int64],
        held: npt.NDArray[np.bool_],
        noise: FloatArray,
        rng: np.random.Generator,
    ) -> None:
        """Map the rows, and compute diagnostics of the fit."""
        before = self._rows.table * self._rows.scale + self._rows.center
        given = self._given
        context = None if given is None else given.table * given.scale + given.center
        after = self.transform(before, context)
        if not np.isfinite(after).all():
            msg = "the flow maps some rows to values that are not finite; lower the learning rate"
            raise OpeBenchError(msg)
        # The density in the original units, which can be compared with closed forms.
        units = float(np.log(self._rows.scale).sum())
        self.diagnostics = {
            "flow_train_nll": self._mean_nll(~held if (~held).any() else held, noise, rng) + units,
            "flow_held_out_nll": descent.held_out + units,
            "flow_epochs": descent.epochs,
            "overlap_before": nearest_neighbor_overlap(before, label, rng),
            "overlap_after": nearest_neighbor_overlap(after, label, rng),
        }
        self.pooled = after if context is None else np.hstack([after, context])

    def _mean_nll(
        self, rows: npt.NDArray[np.bool_], noise: FloatArray, rng: np.random.Generator
    ) -> float:
        import torch

        x, c = self.tensors()
        x = x + self._tensor(noise * rng.standard_normal(x.shape))
        chosen = torch.from_numpy(np.flatnonzero(rows)).to(self.device)
        total = 0.0
        with torch.no_grad():
            for part in torch.split(chosen, CHUNK_ROWS):
                given = None if c is None else c[part]
                total -= float(self.log_density(x[part], given).sum())
        return total / len(chosen)

    def _tensor(self, table: FloatArray) -> torch.Tensor:
        import torch

        return torch.as_tensor(table, dtype=torch.float32, device=self.device)


def flow_model(
    name: FlowName, composition: Composition, options: Mapping[str, Any] | None
) -> FlowModel:
    """Build the flow model from an estimator's parameters.

    Raises
    ------
    ParameterError : a flow does not have such an option.
    """
    given = dict(options or {})
    known = [field.name for field in fields(FlowModel)]
    for option in given:
        if option not in known:
            msg = f"a flow has no option '{option}' (it has: {', '.join(known[2:])})"
            raise ParameterError(msg)
    if "hidden" in given:
        given["hidden"] = tuple(given["hidden"])
    return FlowModel(name=name, composition=composition, **given)
