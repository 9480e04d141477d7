"""Run one trial: sample, view, fit, estimate, time, classify.

The true value stays in this module: an estimator receives a view, which does not contain it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from ope_bench.contracts.access import Access
from ope_bench.contracts.data import Problem
from ope_bench.contracts.environment import Environment
from ope_bench.contracts.estimate import Estimate
from ope_bench.contracts.estimator import Estimator
from ope_bench.contracts.interval import Interval
from ope_bench.contracts.view import View
from ope_bench.errors import (
    DataError,
    PositivityViolation,
    UnavailableError,
)
from ope_bench.plugins.code_digest import result_digest
from ope_bench.plugins.exception_text import class_name, message_of, traceback_of
from ope_bench.plugins.memory_errors import ran_out_of_memory
from ope_bench.plugins.requirements import import_all
from ope_bench.statistics.value_intervals.weights import EFFECTIVE_SAMPLE_SIZE, LEAST_EFFECTIVE
from ope_bench.trials import timing
from ope_bench.trials.batching import OnBatch
from ope_bench.trials.building import build
from ope_bench.trials.devices import Device
from ope_bench.trials.process.isolation import OutputTail, isolated, seed_global_states
from ope_bench.trials.record import Trial, TrialRecord
from ope_bench.trials.status import Status
from ope_bench.trials.weight_accuracy import weight_accuracy
from ope_bench.trials.weight_balance import weight_balance
from ope_bench.trials.workspace import Data, Workspace

__all__ = ["OnFit", "devices_of", "environment_failed", "run_trial"]

OnFit = Callable[[Mapping[str, Any]], None]
"""Called with the facts so far when fit begins: the record of a trial that kills its worker."""

NAME_CHARACTERS = 200
MESSAGE_CHARACTERS = 4_000
TRACEBACK_CHARACTERS = 20_000
LARGEST_ROOT = 1e154


_ANSWER = (
    "estimate",
    "standard_error",
    *(f"interval_{one.name}" for one in dataclasses.fields(Interval)),
)
"""Facts that only a trial with an answer has."""

_ARRAYS = (
    "context",
    "action",
    "embedding",
    "reward",
    "target_context",
    "target_action",
    "target_embedding",
)


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
    """Run one trial and return its record; exceptions of plugins become statuses.

    Parameters
    ----------
    trial : what to run.
    workspace : kept between trials of one worker; settings of the process are restored to those
        at its beginning.
    on_fit : called when fit begins, so that timeouts do not count imports or sampling.
    on_batch : called before the trial's block of replicates is trained, with its size.
    environment, estimator : objects to use instead of building them from the specs.
    exclusive : no other trial runs at the same time.
    restore : restore the caller's global random states.
    """
    attempt = _Attempt(trial, workspace, exclusive)
    with isolated(attempt.global_seed, restore=restore, settings=workspace.settings) as tail:
        try:
            attempt.run(workspace, on_fit, on_batch, environment, estimator)
        except KeyboardInterrupt:
            raise
        # Also SystemExit: a plugin must not end the worker or the notebook.
        except BaseException as exc:
            attempt.set_failure(exc)
        attempt.check_data(workspace)
        if attempt.settle():
            # Shared fits may have been made under what was changed.
            workspace.clear()
    return attempt.to_record(tail)


class _Attempt:
    """One run of a trial, which collects the facts of its record."""

    def __init__(self, trial: Trial, workspace: Workspace, exclusive: bool) -> None:
        self.trial = trial
        self.workspace = workspace
        self.seed = trial.data_seed
        self.global_seed = self.seed.global_seed(trial.estimator.id)
        self.changed: dict[str, None] = {}
        """Settings of the process that the trial changed, in that order."""
        self.facts: dict[str, Any] = {"code_digest": "", "exclusive": exclusive}
        self.status = Status.OK
        self.view: View | None = None
        self.problem: Problem | None = None
        self.sampling = False
        """Whether the environment is being asked for a problem."""
        self.peaks = (0, 0)
        """Peak resident and GPU memory, in bytes, of training the trial's block."""

    def run(
        self,
        workspace: Workspace,
        on_fit: OnFit | None,
        on_batch: OnBatch | None,
        environment: Environment | None,
        estimator: Estimator | None,
    ) -> None:
        trial, facts = self.trial, self.facts
        modules = len(sys.modules)
        environment = environment if environment is not None else build(trial.environment)
        estimator = estimator if estimator is not None else build(trial.estimator)
        facts["code_digest"] = result_digest(environment, estimator)
        access = estimator.access
        facts["access"] = tuple(access.words())
        facts["origin"] = trial.estimator.origin
        facts["environment_origin"] = trial.environment.origin
        import_all((*environment.requires, *estimator.requires))
        _check_device(trial.device, estimator)
        imported = len(sys.modules) != modules
        if imported:
            # What an import changes would hold in this trial and in no later one.
            self.settle()

        device = trial.device.backend
        batched = trial.device.batched
        if batched:
            batches = workspace.batches
            fit_cache = batches.fits_for(trial, environment, estimator, on_batch)
            self.peaks = batches.peaks()
            self.settle()
        sampled = not workspace.holds(trial)
        self.sampling = True
        data = workspace.data(trial, environment)
        self.sampling = False
        if sampled:
            self.settle()
        if imported or sampled or batched:
            seed_global_states(self.global_seed)
        self.problem = data.problem
        if environment.origin_note:
            facts["environment_origin"] += f" ({environment.origin_note})"
        facts |= vars(data.support)
        facts |= data.truth.facts
        facts["logging_average"] = float(data.problem.reward.mean())
        if not batched:
            # Batched fits and single fits are never exchanged.
            fit_cache = data.fit_cache
        view = self.view = View(
            data.problem,
            access,
            seed=self.seed,
            fit_cache=fit_cache,
            device=device,
            optional=estimator.optional_access,
        )
        timing.warm_up(device)
        rng = self.seed.estimator(trial.estimator.id)
        if on_fit is not None:
            on_fit(facts)
        with self._measure_memory():
            with self._timed("fit"):
                estimator.fit(view, rng=rng, device=device)
            with self._timed("estimate"):
                estimate = estimator.estimate(view)
        self._set_estimate(estimate, data, environment)

    @contextlib.contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        view = self.view
        assert view is not None  # noqa: S101  set by `run` just before
        wall, cpu = view.shared_wall_seconds, view.shared_cpu_seconds
        with timing.measured(self.trial.device.backend) as cost:
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
    def _measure_memory(self) -> Iterator[None]:
        timing.reset_peak_rss()
        try:
            yield
        finally:
            # Batched training held all replicates in memory at once.
            own = timing.peak_rss_bytes(), timing.peak_gpu_bytes(self.trial.device.backend)
            for name, peak, shared in zip(
                ("peak_rss_bytes", "gpu_peak_bytes"), own, self.peaks, strict=True
            ):
                self.facts[name] = None if peak is None else max(peak, shared)

    def _set_estimate(self, estimate: object, data: Data, environment: Environment) -> None:
        if not isinstance(estimate, Estimate):
            msg = f"estimate returned {type(estimate).__name__}; expected ope_bench.Estimate"
            raise DataError(msg)
        facts, problem = self.facts, data.problem
        if estimate.weights is not None:
            if len(estimate.weights) != len(problem.reward):
                msg = f"weights has {len(estimate.weights)} rows; expected {len(problem.reward)}"
                raise DataError(msg)
            facts |= _weight_facts(estimate.weights)
        at_target = estimate.target_weights
        rows = 0 if problem.target_action is None else len(problem.target_action)
        if at_target is not None and len(at_target) != rows:
            msg = f"target_weights has {len(at_target)} rows; expected {rows}, the target sample's"
            raise DataError(msg)
        facts["diagnostics"] = {
            **self._effective(estimate, data),
            **estimate.diagnostics,
            **weight_accuracy(problem, estimate),
            **weight_balance(problem, estimate),
            **environment.examine(problem, estimate),
        }
        facts["estimate"] = estimate.value
        facts["standard_error"] = estimate.standard_error
        if estimate.interval is not None:
            facts |= {f"interval_{name}": value for name, value in vars(estimate.interval).items()}
        if not math.isfinite(estimate.value):
            self.status = Status.NONFINITE
            facts["error_type"] = "nonfinite"
            facts["error_message"] = f"the estimate is {estimate.value}"
            self._withdraw()
        elif estimate.standard_error is not None and not (
            math.isfinite(estimate.standard_error) and estimate.standard_error >= 0
        ):
            facts["standard_error"] = None

    def _effective(self, estimate: Estimate, data: Data) -> dict[str, float]:
        """Return the effective sample size of the weights, and the least that policies allow.

        The latter is of importance weights of actions, where a standard error is built on them.
        """
        fraction, found = self.facts.get("ess_fraction"), {}
        if fraction is not None:
            found[EFFECTIVE_SAMPLE_SIZE] = fraction * len(data.problem.reward)
        known = Access.PROPENSITY | Access.TARGET_POLICY
        by_policies = self.view is not None and known in self.view.access
        if by_policies and estimate.weight_space == "action" and data.least_effective is not None:
            found[LEAST_EFFECTIVE] = data.least_effective
        return found

    def _withdraw(self) -> None:
        """Remove the answer of a trial that failed after all."""
        for name in _ANSWER:
            self.facts[name] = None

    def set_failure(self, exc: BaseException) -> None:
        self.status = _status_of(exc)
        self.facts["error_type"] = class_name(exc)[:NAME_CHARACTERS]
        message = message_of(exc)
        if self.sampling and self.status is Status.ERROR:
            message = f"{_environment_prefix(self.trial)}{message}"
        self.facts["error_message"] = message[:MESSAGE_CHARACTERS]
        if self.status is not Status.UNAVAILABLE:
            self.facts["traceback"] = traceback_of(exc)[-TRACEBACK_CHARACTERS:]
        if isinstance(exc, PositivityViolation):
            if exc.unsupported_mass is not None:
                self.facts["diagnostics"] = {"missing_mass": float(exc.unsupported_mass)}
            if exc.fallback is not None and math.isfinite(exc.fallback):
                self.facts["fallback"] = float(exc.fallback)

    def check_data(self, workspace: Workspace) -> None:
        """Fail the trial and discard the data if the estimator made them writeable."""
        if self.problem is None:
            return
        arrays = [(name, getattr(self.problem, name)) for name in _ARRAYS]
        arrays += zip(("unit", "target_unit"), self.problem.row_units, strict=True)
        opened = [name for name, array in arrays if array is not None and array.flags.writeable]
        if opened:
            workspace.clear()
            self._withdraw()
            self.set_failure(DataError(f"made view.{', view.'.join(opened)} writeable"))

    def settle(self) -> bool:
        """Put back the settings of the process that a plugin has changed; say if any."""
        left = self.workspace.settings.restore()
        self.changed.update(dict.fromkeys(left.names))
        self.workspace.spoiled |= left.lasting
        return bool(left)

    def to_record(self, tail: OutputTail) -> TrialRecord:
        violations = self.view.violations if self.view else []
        if violations and self.status is not Status.ERROR:
            # The violation counts even if the estimator caught the AccessError.
            self.status = Status.ERROR
            self._withdraw()
            self.facts["error_type"] = "AccessError"
            self.facts["error_message"] = f"read undeclared view.{', view.'.join(violations)}"
        self.facts["output_tail"] = tail.text()
        if self.changed:
            note = f"changed {', '.join(self.changed)}"
            self.facts["note"] = note[:MESSAGE_CHARACTERS]
        return TrialRecord(self.trial, status=self.status, **self.facts)


def environment_failed(record: TrialRecord) -> bool:
    """Return whether the environment raised while it was asked for a problem."""
    message = record.error_message or ""
    return record.status is Status.ERROR and message.startswith(_environment_prefix(record.trial))


def _environment_prefix(trial: Trial) -> str:
    return f"environment '{trial.environment.id}': "


def devices_of(estimator: Estimator) -> tuple[str, ...]:
    """Return the devices on which an estimator can train, batched forms included."""
    single = estimator.devices
    if not estimator.batched:
        return single
    return (*single, *(device for device in Device if device.batched and device.backend in single))


def _check_device(device: Device, estimator: Estimator) -> None:
    devices = devices_of(estimator)
    if device not in devices:
        msg = f"the estimator trains on {', '.join(devices)}, not on {device}"
        raise UnavailableError(msg)
    if device.backend == "cuda":
        import_all(["torch"])
        import torch

        if not torch.cuda.is_available():
            msg = "no CUDA device is available"
            raise UnavailableError(msg)


def _status_of(exc: BaseException) -> Status:
    if isinstance(exc, PositivityViolation):
        return Status.POSITIVITY
    if isinstance(exc, UnavailableError):
        return Status.UNAVAILABLE
    if isinstance(exc, SystemExit):
        return Status.CRASH
    return Status.MEMORY if ran_out_of_memory(exc) else Status.ERROR


def _weight_facts(weights: np.ndarray[Any, Any]) -> dict[str, float | None]:
    with np.errstate(over="ignore", invalid="ignore"):
        total, squares = float(weights.sum()), float(np.square(weights).sum())
    # A sum above this has no square.
    if not (abs(total) < LARGEST_ROOT and math.isfinite(squares)) or squares == 0 or total == 0:
        return {"ess_fraction": None, "max_weight_share": None}
    return {
        "ess_fraction": total**2 / (len(weights) * squares),
        "max_weight_share": float(weights.max()) / total,
    }
