"""One trial: sample, view, fit, estimate, time, classify.

The truth stays in this module: an estimator is handed a view, which never held it.
"""

from __future__ import annotations

import contextlib
import math
import traceback as tracebacks
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ope_bench import timing
from ope_bench.batching import Batches, OnBatch
from ope_bench.data import Estimate, Problem, Truth
from ope_bench.devices import batched_form, is_batched, place
from ope_bench.environment import Environment
from ope_bench.errors import DataError, PositivityViolation, UnavailableError
from ope_bench.estimator import Estimator
from ope_bench.isolation import Tail, isolated
from ope_bench.memo import Memo
from ope_bench.oracle import compare
from ope_bench.provenance import answer_digest
from ope_bench.records import PluginSpec, Status, Trial, TrialRecord
from ope_bench.registry import registry
from ope_bench.requirements import import_all
from ope_bench.shortage import ran_out_of_memory
from ope_bench.support import Support, support_of
from ope_bench.view import View

__all__ = ["OnFit", "Workspace", "build", "devices_of", "run_trial"]

OnFit = Callable[[Mapping[str, Any]], None]
"""Told the facts so far when fit begins: what is left of a trial that kills its worker."""

MESSAGE_CHARACTERS = 4_000
TRACEBACK_CHARACTERS = 20_000


_ARRAYS = (
    "context",
    "action",
    "embedding",
    "reward",
    "target_context",
    "target_action",
    "target_embedding",
)


@dataclass(frozen=True)
class _Data:
    problem: Problem
    truth: Truth
    support: Support
    memo: Memo


class Workspace:
    """What a worker keeps between trials: the last problem and the fits shared on it.

    Parameters
    ----------
    batches : the last block of replicates that were trained together.
    """

    def __init__(self) -> None:
        self.batches = Batches()
        self._key: str | None = None
        self._data: _Data | None = None

    def data(self, trial: Trial, environment: Environment) -> _Data:
        """The trial's problem, sampled now or kept from the trial before."""
        if self._data is None or self._key != trial.data_key:
            # The old one is dropped first, so that two large problems never stand side by side.
            self._key = self._data = None
            seed = trial.data_seed
            problem, truth = environment.sample(
                world_rng=seed.world(), logged_rng=seed.logged(), target_rng=seed.target()
            )
            if not (isinstance(problem, Problem) and isinstance(truth, Truth)):
                msg = f"{type(environment).__name__}.sample must return (Problem, Truth)"
                raise DataError(msg)
            self._data = _Data(problem, truth, support_of(problem), Memo())
            self._key = trial.data_key
        return self._data

    def clear(self) -> None:
        """Forget what was kept."""
        self._key = self._data = None
        self.batches.clear()


def build(spec: PluginSpec) -> Any:
    """The environment or estimator that a spec describes."""
    return registry().find(spec.kind, spec.reference).cls(**spec.params)


def run_trial(
    trial: Trial,
    workspace: Workspace,
    *,
    on_fit: OnFit | None = None,
    on_batch: OnBatch | None = None,
    environment: Environment | None = None,
    estimator: Estimator | None = None,
    exclusive: bool = False,
    restore: bool = True,
) -> TrialRecord:
    """Run one trial to its record; whatever a plugin raises becomes a status.

    Parameters
    ----------
    trial : what to run.
    workspace : kept between trials of one worker.
    on_fit : called when fit begins, so that a timeout does not count imports or sampling.
    on_batch : called before the trial's block of replicates is trained, with its size.
    environment, estimator : objects to use instead of building them from the specs.
    exclusive : nothing else runs meanwhile.
    restore : give the caller's global random states back; a worker has no use for that.
    """
    attempt = _Attempt(trial, exclusive)
    with isolated(trial.data_seed.word(trial.estimator.id), restore=restore) as tail:
        try:
            attempt.run(workspace, on_fit, on_batch, environment, estimator)
        except KeyboardInterrupt:
            raise
        # SystemExit from a plugin included: it must not end the worker or the notebook.
        except BaseException as exc:
            attempt.failed(exc)
        attempt.check_data(workspace)
    return attempt.finished(tail)


class _Attempt:
    """The record of one trial while it grows."""

    def __init__(self, trial: Trial, exclusive: bool) -> None:
        self.trial = trial
        self.facts: dict[str, Any] = {"code_digest": "", "exclusive": exclusive}
        self.status = Status.OK
        self.view: View | None = None
        self.problem: Problem | None = None
        self.peaks = (0, 0)
        """Bytes of resident and of GPU memory that the trial's block took."""

    def run(
        self,
        workspace: Workspace,
        on_fit: OnFit | None,
        on_batch: OnBatch | None,
        environment: Environment | None,
        estimator: Estimator | None,
    ) -> None:
        trial, facts = self.trial, self.facts
        environment = environment if environment is not None else build(trial.environment)
        estimator = estimator if estimator is not None else build(trial.estimator)
        facts["code_digest"] = answer_digest(environment, estimator)
        access = estimator.access
        facts["access"] = tuple(access.words())
        facts["origin"] = trial.estimator.origin
        facts["environment_origin"] = trial.environment.origin
        import_all((*environment.requires, *estimator.requires))
        _check_device(trial.device, estimator)

        device = place(trial.device)
        together = is_batched(trial.device)
        if together:
            batches = workspace.batches
            memo = batches.memo(trial, environment, estimator, on_batch)
            self.peaks = batches.peaks()
        data = workspace.data(trial, environment)
        self.problem = data.problem
        if environment.origin_note:
            facts["environment_origin"] += f" ({environment.origin_note})"
        facts |= vars(data.support)
        facts["truth_expected"] = data.truth.expected
        facts["truth_expected_se"] = data.truth.expected_se
        facts["truth_empirical"] = data.truth.empirical
        facts["logging_average"] = float(data.problem.reward.mean())
        if not together:
            # Fits made one by one and fits made together never stand in for each other.
            memo = data.memo
        view = self.view = View(
            data.problem, access, seed=trial.data_seed, memo=memo, device=device
        )
        timing.warm_up(device)
        rng = trial.data_seed.estimator(trial.estimator.id)
        if on_fit is not None:
            on_fit(facts)
        with self._memory_watched():
            with self._timed("fit"):
                estimator.fit(view, rng=rng, device=device)
            with self._timed("estimate"):
                estimate = estimator.estimate(view)
        self._judge(estimate, data.problem)

    @contextlib.contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        view = self.view
        assert view is not None  # noqa: S101  set by `run` just before
        wall, cpu = view.shared_wall_seconds, view.shared_cpu_seconds
        with timing.measured(place(self.trial.device)) as cost:
            try:
                yield
            finally:
                shared_wall = view.shared_wall_seconds - wall
                shared_cpu = view.shared_cpu_seconds - cpu
        self.facts[f"{part}_seconds"] = cost.wall_seconds + shared_wall
        if part == "fit":
            self.facts["fit_cpu_seconds"] = cost.cpu_seconds + shared_cpu
        self.facts["shared_seconds"] = view.shared_wall_seconds

    @contextlib.contextmanager
    def _memory_watched(self) -> Iterator[None]:
        timing.reset_peak_rss()
        try:
            yield
        finally:
            # What was trained together was in memory together.
            own = timing.peak_rss_bytes(), timing.peak_gpu_bytes(place(self.trial.device))
            for name, peak, shared in zip(
                ("peak_rss_bytes", "gpu_peak_bytes"), own, self.peaks, strict=True
            ):
                self.facts[name] = None if peak is None else max(peak, shared)

    def _judge(self, estimate: object, problem: Problem) -> None:
        if not isinstance(estimate, Estimate):
            msg = f"estimate returned {type(estimate).__name__}; expected ope_bench.Estimate"
            raise DataError(msg)
        facts = self.facts
        if estimate.weights is not None:
            if len(estimate.weights) != len(problem.reward):
                msg = f"weights has {len(estimate.weights)} rows; expected {len(problem.reward)}"
                raise DataError(msg)
            facts |= _weight_facts(estimate.weights)
        facts["diagnostics"] = {**estimate.diagnostics, **compare(problem, estimate)}
        facts["estimate"] = estimate.value
        facts["standard_error"] = estimate.standard_error
        if not math.isfinite(estimate.value):
            self.status = Status.NONFINITE
            facts["error_type"] = "nonfinite"
            facts["error_message"] = f"the estimate is {estimate.value}"
            facts["estimate"] = facts["standard_error"] = None
        elif estimate.standard_error is not None and not (
            math.isfinite(estimate.standard_error) and estimate.standard_error >= 0
        ):
            facts["standard_error"] = None

    def failed(self, exc: BaseException) -> None:
        self.status = _status_of(exc)
        self.facts["error_type"] = type(exc).__name__
        self.facts["error_message"] = _text(exc)[:MESSAGE_CHARACTERS]
        if self.status is not Status.UNAVAILABLE:
            told = "".join(tracebacks.format_exception(exc))
            self.facts["traceback"] = told[-TRACEBACK_CHARACTERS:]
        if isinstance(exc, PositivityViolation):
            if exc.unsupported_mass is not None:
                self.facts["diagnostics"] = {"missing_mass": float(exc.unsupported_mass)}
            if exc.fallback is not None and math.isfinite(exc.fallback):
                self.facts["fallback"] = float(exc.fallback)

    def check_data(self, workspace: Workspace) -> None:
        """Changed data must not reach the next trial."""
        if self.problem is None:
            return
        opened = [name for name in _ARRAYS if getattr(self.problem, name).flags.writeable]
        if opened:
            workspace.clear()
            self.facts["estimate"] = self.facts["standard_error"] = None
            self.failed(DataError(f"made view.{', view.'.join(opened)} writeable"))

    def finished(self, tail: Tail) -> TrialRecord:
        touched = self.view.violations if self.view else []
        if touched and self.status is not Status.ERROR:
            # Swallowing the AccessError does not help.
            self.status = Status.ERROR
            self.facts["estimate"] = self.facts["standard_error"] = None
            self.facts["error_type"] = "AccessError"
            self.facts["error_message"] = f"touched undeclared view.{', view.'.join(touched)}"
        self.facts["output_tail"] = tail.text()
        return TrialRecord(self.trial, status=self.status, **self.facts)


def devices_of(estimator: Estimator) -> tuple[str, ...]:
    """Where an estimator can train, the batched kinds of its devices included."""
    single = estimator.devices
    return (*single, *map(batched_form, single)) if estimator.batched else single


def _check_device(device: str, estimator: Estimator) -> None:
    devices = devices_of(estimator)
    if device not in devices:
        msg = f"the estimator trains on {', '.join(devices)}, not on {device}"
        raise UnavailableError(msg)
    if place(device) == "cuda":
        import_all(["torch"])
        import torch

        if not torch.cuda.is_available():
            msg = "no CUDA device is available"
            raise UnavailableError(msg)


def _text(exc: BaseException) -> str:
    try:
        return str(exc)
    # A plugin's exception may fail even here.
    except Exception as failure:
        return f"(its message cannot be read: {type(failure).__name__})"


def _status_of(exc: BaseException) -> Status:
    if isinstance(exc, PositivityViolation):
        return Status.POSITIVITY
    if isinstance(exc, UnavailableError):
        return Status.UNAVAILABLE
    if isinstance(exc, SystemExit):
        return Status.CRASH
    return Status.MEMORY if ran_out_of_memory(exc) else Status.ERROR


def _weight_facts(weights: np.ndarray[Any, Any]) -> dict[str, float | None]:
    total, squares = float(weights.sum()), float(np.square(weights).sum())
    if not (math.isfinite(total) and math.isfinite(squares)) or squares == 0 or total == 0:
        return {"ess_fraction": None, "max_weight_share": None}
    return {
        "ess_fraction": total**2 / (len(weights) * squares),
        "max_weight_share": float(weights.max()) / total,
    }
