"""A normalizing flow over both samples, as a shared fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import numpy.typing as npt
from annotated_types import Ge, Gt, Len, Lt
from typing_extensions import TypedDict  # typing's own is refused by pydantic before Python 3.12

from ope_bench.arrays import FloatArray, IntArray
from ope_bench.data import Diagnostic
from ope_bench.errors import OpeBenchError, ParameterError, UnavailableError
from ope_bench.view import View
from ope_estimators.density_ratio.composition import Composition, Features, compose, separate
from ope_estimators.flows.families import FlowName, flow_module
from ope_estimators.flows.overlap import overlap
from ope_estimators.nuisance.folds import folds
from ope_estimators.nuisance.together import Training, attempt, descend_together
from ope_estimators.nuisance.training import Descent, Schedule, descend, initialised

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
    held_out: Annotated[float, Gt(0), Lt(1)]
    dequantise: Annotated[float, Ge(0)]
    conditional: bool


@dataclass(frozen=True)
class FlowModel:
    """An invertible map n that makes the pooled features standard normal.

        maximise mean log t(n(x)) + log |det dn/dx|,   t the standard normal density

    over logged and target rows together, whose labels it never sees. The ratio of densities is
    the same before and after; what changes is how far apart the samples lie for a classifier.
    Features that repeat a value have no density and no finite maximum: while training, such
    columns get noise anew at every step. The fitted map itself adds none, and keeps equal rows
    equal.

    Parameters
    ----------
    name : family.
    composition : of embedding and context, the flow's input.
    transforms : how many maps are composed.
    hidden : width of the hidden layers of each map's network.
    epochs, batch_size, learning_rate, weight_decay, patience, max_steps : as `Schedule`.
    held_out : share of the rows (groups of rows, where contexts are shared) for early stopping.
    dequantise : noise on columns with few values, in their standard deviations.
    conditional : map the embedding given the context, and leave the context as it is.

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
        """The map, and both samples' rows under it."""
        begun = self.begin(view, rng=rng, device=device)
        return begun.finished(self._train(begun))

    def complete(
        self, begun: Sequence[BegunFlow], *, device: str
    ) -> list[FittedFlow | OpeBenchError]:
        """The maps of many replicates, trained side by side."""
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
            for one in begun
        ]
        outcomes = descend_together(trainings, _row_nll)
        return [
            attempt(one.finished, descent) for one, descent in zip(begun, outcomes, strict=True)
        ]

    def begin(self, view: View, *, rng: np.random.Generator, device: str) -> BegunFlow:
        """The map before training, and what is to be done with it."""
        features, context = self._inputs(view)
        rows = _standardised(features.pooled)
        given = _standardised(context) if context is not None else None
        width = 0 if given is None else given.table.shape[1]
        with initialised(int(rng.integers(2**31))):
            module = flow_module(
                self.name, rows.table.shape[1], width, self.transforms, self.hidden
            )
        fitted = FittedFlow(module.to(device), rows, given, device)
        held = np.concatenate(folds(view, max(2, round(1 / self.held_out)), rng)) == 0
        noise = np.where(features.discrete, self.dequantise, 0.0)
        label = np.repeat([0, 1], [view.n, view.m])
        return BegunFlow(fitted, label, held, noise, rng)

    def schedule(self) -> Schedule:
        """How long and how fast it is trained."""
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
            msg = f"a conditional flow leaves the context as it is: not '{self.composition}'"
            raise ParameterError(msg)
        embedding, context = separate(view)
        if not embedding.discrete.size:
            msg = "a conditional flow needs an embedding that varies"
            raise UnavailableError(msg)
        return embedding, context.pooled if context.discrete.size else None

    def _train(self, begun: BegunFlow) -> Descent:
        import torch

        flow, noise, rng = begun.flow, begun.noise, begun.rng
        x, c = flow.tensors()
        scale = torch.as_tensor(noise, dtype=torch.float32, device=flow.device)

        def nll(rows: torch.Tensor, jitter: torch.Tensor) -> torch.Tensor:
            return -flow.log_density(x[rows] + jitter, None if c is None else c[rows]).mean()

        def drawn(count: int) -> torch.Tensor:
            draw = rng.standard_normal((count, len(noise)), dtype=np.float32)
            return scale * torch.from_numpy(draw).to(flow.device)

        aside_rows = torch.from_numpy(begun.aside).to(flow.device)
        # The same noise at every epoch, so that held-out losses differ by the parameters alone.
        aside_noise = drawn(len(begun.aside))
        return descend(
            flow.module,
            lambda rows: nll(rows, drawn(len(rows))),
            lambda: nll(aside_rows, aside_noise),
            rows=begun.train,
            schedule=self.schedule(),
            rng=rng,
            device=flow.device,
        )


@dataclass(frozen=True, eq=False)
class BegunFlow:
    """A flow that is about to be trained.

    Parameters
    ----------
    flow : untrained.
    label : (n + m,), 0 for logged rows and 1 for target rows
    held : (n + m,), the rows kept aside
    noise : (d,), deviations of the noise on each column
    rng : the stream of the fit.
    """

    flow: FittedFlow
    label: npt.NDArray[np.int64]
    held: npt.NDArray[np.bool_]
    noise: FloatArray
    rng: np.random.Generator

    @property
    def train(self) -> IntArray:
        """Rows to train on."""
        return np.flatnonzero(~self.held) if (~self.held).sum() > 1 else np.arange(len(self.held))

    @property
    def aside(self) -> IntArray:
        """Rows to judge by."""
        return np.flatnonzero(self.held) if self.held.any() else self.train

    def finished(self, descent: Descent) -> FittedFlow:
        """The flow, once it is trained."""
        self.flow.finish(descent, self.label, self.held, self.noise, self.rng)
        return self.flow


def _row_nll(module: Any, x: Any, c: Any = None) -> Any:
    """-log density of each row."""
    return -module(c).log_prob(x)


@dataclass(frozen=True, eq=False)
class _Standardised:
    """Columns in standard deviations; a constant column stays as it is, at zero."""

    table: FloatArray
    center: FloatArray
    scale: FloatArray


def _standardised(table: FloatArray) -> _Standardised:
    center, scale = table.mean(axis=0), table.std(axis=0)
    # A constant column's deviation is rounding error, not zero.
    scale = np.where(scale > 1e-12 * (1.0 + np.abs(center)), scale, 1.0)
    return _Standardised((table - center) / scale, center, scale)


CHUNK_ROWS = 1 << 14


class FittedFlow:
    """A flow on a device, with the rows that it was fitted on.

    Parameters
    ----------
    module : the flow.
    rows : its input, standardised, logged rows first.
    given : the context of a conditional flow, standardised.
    device : where module and tensors are.

    Attributes
    ----------
    pooled : (n + m, d), the rows under the map, and the context of a conditional flow
    diagnostics : likelihoods, epochs, overlap before and after
    """

    pooled: FloatArray
    diagnostics: dict[str, Diagnostic]

    def __init__(
        self, module: Any, rows: _Standardised, given: _Standardised | None, device: str
    ) -> None:
        self.module = module
        self.device = device
        self._rows = rows
        self._given = given

    def tensors(self) -> tuple[torch.Tensor, torch.Tensor | None]:
        """The standardised rows and contexts, on the device."""
        given = None if self._given is None else self._tensor(self._given.table)
        return self._tensor(self._rows.table), given

    def log_density(self, x: torch.Tensor, c: torch.Tensor | None) -> torch.Tensor:
        """Log-density of standardised rows: (k,)."""
        density: torch.Tensor = self.module(c).log_prob(x)
        return density

    def transform(self, table: FloatArray, context: FloatArray | None = None) -> FloatArray:
        """n(x) of rows in their own units: (k, d)."""
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
        """Map the rows, and say how well the flow fits them."""
        before = self._rows.table * self._rows.scale + self._rows.center
        given = self._given
        context = None if given is None else given.table * given.scale + given.center
        after = self.transform(before, context)
        if not np.isfinite(after).all():
            msg = "the flow maps some rows to values that are not finite; lower the learning rate"
            raise OpeBenchError(msg)
        # A density of rows in their own units, so that it can be compared with closed forms.
        units = float(np.log(self._rows.scale).sum())
        self.diagnostics = {
            "flow_train_nll": self._mean_nll(~held if (~held).any() else held, noise, rng) + units,
            "flow_held_out_nll": descent.held_out + units,
            "flow_epochs": descent.epochs,
            "overlap_before": overlap(before, label, rng),
            "overlap_after": overlap(after, label, rng),
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
    """The flow that an estimator's parameters ask for.

    Raises
    ------
    ParameterError : an option that a flow does not have.
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
