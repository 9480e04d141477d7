"""Run one trial: build its plugins, sample, view, fit, estimate, time, classify."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ope_bench.base import errors
from ope_bench.base.errors import DataError, PositivityViolation, UnavailableError
from ope_bench.contracts.arrays import row_chunks
from ope_bench.contracts.data import Problem, Truth
from ope_bench.contracts.plugins import (
    Environment,
    Estimator,
    Interval,
    checked_estimate,
    refuse_unused,
)
from ope_bench.contracts.policies import DiscretePolicy
from ope_bench.contracts.view import Access, FitCache, View
from ope_bench.plugins.registry import is_built_in, registry
from ope_bench.plugins.requirements import (
    class_name,
    import_all,
    message_of,
    ran_out_of_memory,
    traceback_of,
)
from ope_bench.plugins.spec import PluginSpec, result_digest
from ope_bench.statistics.weight_checks import EFFECTIVE_SAMPLE_SIZE, LEAST_EFFECTIVE
from ope_bench.trials import timing
from ope_bench.trials.batching import BlockCache, OnBatch
from ope_bench.trials.foreign import Foreign
from ope_bench.trials.isolation import (
    OutputTail,
    isolated,
    seed_global_states,
    seeding_of_torch,
)
from ope_bench.trials.patches import patches_noted
from ope_bench.trials.process_settings import ProcessSettings
from ope_bench.trials.record import Trial, TrialRecord
from ope_bench.trials.sealing import COPY_FIRST, Seal
from ope_bench.trials.status import Device, Status
from ope_bench.trials.weights import weight_diagnostics


def build(spec: PluginSpec) -> Any:
    """Build the environment or estimator that a spec describes."""
    return registry().find(spec.kind, spec.reference).cls(**spec.params)


def build_checked(spec: PluginSpec) -> Any:
    """Build a plugin outside of a trial, where its mistakes must end in one line.

    Raises
    ------
    PluginError : the constructor raises something else than an error of the suite, or does not
        store a parameter under its own name: copies would then have other parameters.
    """
    where = f"{spec.kind} '{spec.id}' ({spec.origin})"
    try:
        plugin = build(spec)
    except errors.OpeBenchError:
        raise
    except Exception as exc:
        msg = f"{where} fails when built: {type(exc).__name__}: {exc}"
        raise errors.PluginError(msg) from exc
    for name in spec.params:
        if not hasattr(plugin, name):
            cls = type(plugin).__name__
            msg = (
                f"{where}: {cls}.__init__ does not store '{name}' under its own name; "
                f"write self.{name} = {name}"
            )
            raise errors.PluginError(msg)
    return plugin


MOST_ENTRIES = 20_000_000
"""Most probabilities evaluated for the unsupported mass; it is estimated from the first rows."""


@dataclass(frozen=True)
class Support:
    """Support of one problem.

    Parameters
    ----------
    unsupported_mass : E over contexts of the target mass on actions with logging probability 0;
        with continuous actions, the share of the target sample where the logging density is 0.
    observed_unsupported_mass : share of the target sample's actions that were never logged.
    n_logged_actions, n_target_actions : distinct actions in each sample (d0, d1).

    The last three are None for continuous actions, where no action occurs twice;
    those of the target sample are None where there is none.
    """

    unsupported_mass: float | None = None
    observed_unsupported_mass: float | None = None
    n_logged_actions: int | None = None
    n_target_actions: int | None = None


def support_of(problem: Problem) -> Support:
    """Compute the support of a problem."""
    if problem.n_actions is None:
        return Support(_unsupported_share(problem))
    seen = np.zeros((2, problem.n_actions), dtype=np.bool_)
    seen[0, problem.action] = True
    n_logged = int(np.count_nonzero(seen[0]))
    if problem.target_action is None:
        return Support(_unsupported_mass(problem), None, n_logged)
    seen[1, problem.target_action] = True
    never = ~seen[0, problem.target_action]
    n_target = int(np.count_nonzero(seen[1]))
    return Support(_unsupported_mass(problem), float(never.mean()), n_logged, n_target)


def _unsupported_share(problem: Problem) -> float | None:
    """Return the unsupported share of a target sample of continuous actions, None if unknown.

    A target policy whose attribute ``has_density`` is False chooses single points, which have mass
    zero under any density.
    """
    logging, target = problem.logging_policy, problem.target_policy
    if logging is None or target is None or not problem.has_target_sample:
        return None
    if not getattr(target, "has_density", True):
        return 1.0
    context, action, _ = problem.target_sample
    density = logging.probability(context, action)
    return float((density == 0).mean())


def _unsupported_mass(problem: Problem) -> float | None:
    logging, target = problem.logging_policy, problem.target_policy
    if not isinstance(logging, DiscretePolicy) or not isinstance(target, DiscretePolicy):
        return None
    if logging.full_support:
        return 0.0
    rows = max(1, MOST_ENTRIES // logging.n_actions)
    context = problem.context if problem.target_context is None else problem.target_context
    context = context[:rows]
    mass = 0.0
    for chunk in row_chunks(len(context), logging.n_actions):
        missing = logging.table(context[chunk]) == 0.0
        mass += float(target.table(context[chunk])[missing].sum())
    return mass / len(context)


MOST_RATIOS = 200_000
"""Ratios of the policies of which the largest is taken; of more, those of the first rows."""


@dataclass(frozen=True)
class Data:
    """One problem with its truth, its support, the shared fits on it, and what seals it."""

    problem: Problem
    truth: Truth
    support: Support
    fit_cache: FitCache
    seal: Seal

    @cached_property
    def least_effective(self) -> float | None:
        """Rows over the largest weight that the policies allow; None where they are not known.

        No weights are worth fewer equal rows, on average.
        """
        _, largest = self.problem.weight_range(MOST_RATIOS)
        return len(self.problem.reward) / largest if 0 < largest < math.inf else None


class Workspace:
    """State of a worker between trials: the last problem and the shared fits on it.

    Parameters
    ----------
    mapped : problems lie in pages that the process cannot write: who tries ends it.

    Attributes
    ----------
    batches : cache of the last block of replicates that were trained batched.
    settings : of the process; None before its first trial, and after one that changed them.
    """

    def __init__(self, *, mapped: bool = False) -> None:
        self.batches = BlockCache(mapped)
        self.settings: ProcessSettings | None = None
        self._mapped = mapped
        self._key: str | None = None
        self._data: Data | None = None
        self._refused: tuple[str, UnavailableError] | None = None

    def holds(self, trial: Trial) -> bool:
        """Return whether the trial's problem is kept from the trial before."""
        return self._data is not None and self._key == trial.data_key

    def data(self, trial: Trial, environment: Environment) -> Data:
        """Return the trial's problem, sampled now or kept from the last trial."""
        if self._refused is not None and self._refused[0] == trial.data_key:
            # An environment may try long before it says that it has no such data.
            raise self._refused[1]
        if self._data is None or self._key != trial.data_key:
            # Free the old problem before sampling, so that two large ones are never in memory
            # together.
            self._key = self._data = None
            seed = trial.data_seed
            # Data must not depend on the estimator that first asks for them.
            seed_global_states(seed.global_seed(""))
            try:
                sampled: object = environment.sample(
                    world_rng=seed.world(), logged_rng=seed.logged(), target_rng=seed.target()
                )
            except UnavailableError as exc:
                self._refused = trial.data_key, exc.with_traceback(None)
                raise
            match sampled:
                case (Problem() as problem, Truth() as truth):
                    pass
                case _:
                    msg = f"{type(environment).__name__}.sample must return (Problem, Truth)"
                    raise DataError(msg)
            seal = Seal(problem, mapped=self._mapped)
            problem = sampled = seal.problem
            # Tests check the built-in environments at every row.
            given = environment.wrapped is not None or environment.data_files
            every = given or not is_built_in(type(environment))
            problem.check_policies(None if every else BUILT_IN_ROWS)
            self._data = Data(problem, truth, support_of(problem), FitCache(), seal)
            seal.forgive()
            self._key = trial.data_key
        return self._data

    def changes(self) -> list[str]:
        """Return what a trial has changed of the problem; discard one that has changed."""
        if self._data is None:
            return []
        found = self._data.seal.changes() | dict.fromkeys(self._data.fit_cache.changed(), True)
        if found:
            self.clear()
        return [name for name, changed in found.items() if changed]

    def clear(self) -> None:
        """Discard the cached problem and fits."""
        self._key = self._data = self._refused = None
        self.batches.clear()


OnFit = Callable[[Mapping[str, Any]], None]
"""A function of the facts so far, called when fit begins: a trial may kill its worker."""

BUILT_IN_ROWS = 16
"""Rows at which the policies of built-in environments are checked."""

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
    workspace : kept between trials of one worker, which ends after a trial that changed settings
        of the process; its record has a note of them.
    on_fit : called when fit begins, so that timeouts do not count imports or sampling.
    on_batch : called before the trial's block of replicates is trained, with its size.
    environment, estimator : objects to use instead of building them from the specs.
    exclusive : no other trial runs at the same time.
    restore : restore the caller's global random states.
    """
    attempt = _Attempt(trial, exclusive)
    seed = attempt.global_seed
    with isolated(seed, restore=restore) as tail:
        settings = workspace.settings = workspace.settings or ProcessSettings()
        with patches_noted() as patched, settings.watched(seeding_of_torch(seed)):
            try:
                attempt.run(workspace, on_fit, on_batch, environment, estimator)
            except KeyboardInterrupt:
                raise
            # Also SystemExit: a plugin must not end the worker or the notebook.
            except BaseException as exc:
                attempt.set_failure(exc)
        attempt.check_data(workspace)
        changed = settings.changes()
    if changed:
        workspace.settings = None
    told = {"changed": changed, "patched": patched}
    note = "; ".join(f"{how} {', '.join(names)}" for how, names in told.items() if names)
    attempt.facts["note"] = note[:MESSAGE_CHARACTERS] or None
    return attempt.to_record(tail)


class _Attempt:
    """One run of a trial, which collects the facts of its record."""

    def __init__(self, trial: Trial, exclusive: bool) -> None:
        self.trial = trial
        self.seed = trial.data_seed
        self.global_seed = self.seed.global_seed(trial.estimator.id)
        self.facts: dict[str, Any] = {"code_digest": "", "exclusive": exclusive}
        self.status = Status.OK
        self.view: View | None = None
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
        environment.suite_salt = trial.salt
        estimator = estimator if estimator is not None else build(trial.estimator)
        facts["code_digest"] = result_digest(environment, estimator)
        access = estimator.access
        facts["access"] = tuple(access.words())
        facts["origin"] = trial.estimator.origin
        facts["environment_origin"] = trial.environment.origin
        import_all((*environment.requires, *estimator.requires))
        devices, device = devices_of(estimator), trial.device.backend
        if trial.device not in devices:
            msg = f"the estimator trains on {', '.join(devices)}, not on {trial.device}"
            raise UnavailableError(msg)
        if device == "cuda":
            import_all(["torch"])
            import torch

            if not torch.cuda.is_available():
                msg = "no CUDA device is available"
                raise UnavailableError(msg)
        imported = len(sys.modules) != modules
        batched = trial.device.batched
        if batched:
            batches = workspace.batches
            fit_cache = batches.fits_for(trial, environment, estimator, on_batch)
            self.peaks = batches.peaks()
        sampled = not workspace.holds(trial)
        self.sampling = True
        data = workspace.data(trial, environment)
        self.sampling = False
        # Imports, sampling and training may have drawn from the global random states.
        if imported or sampled or batched:
            seed_global_states(self.global_seed)
        refuse_unused(estimator, data.problem)
        if environment.origin_note:
            facts["environment_origin"] += f" ({environment.origin_note})"
        if data.seal.compared:
            facts["environment_origin"] += " (its data are compared after each trial, not sealed)"
        facts |= vars(data.support)
        facts |= data.truth.facts
        facts["logging_average"] = data.problem.logging_average
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
        running: contextlib.AbstractContextManager[Any] = contextlib.nullcontext()
        foreign = isinstance(estimator, Foreign)
        if isinstance(estimator, Foreign):
            running = estimator.running(self.global_seed)
        try:
            with running:
                if on_fit is not None:
                    on_fit(facts)
                timing.reset_peak_rss()
                with self._timed("fit"):
                    estimator.fit(view, rng=rng, device=device)
                with self._timed("estimate"):
                    estimate = estimator.estimate(view)
        finally:
            # Batched training held all replicates in memory at once.
            own = timing.peak_rss_bytes(), timing.peak_gpu_bytes(device)
            for name, peak, shared in zip(
                ("peak_rss_bytes", "gpu_peak_bytes"), own, self.peaks, strict=True
            ):
                facts[name] = None if peak is None or foreign else max(peak, shared)
            if foreign:  # another process's
                facts.pop("fit_cpu_seconds", None)
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

    def _set_estimate(self, returned: object, data: Data, environment: Environment) -> None:
        facts, problem = self.facts, data.problem
        m = 0 if problem.target_action is None else len(problem.target_action)
        estimate = checked_estimate(returned, len(problem.reward), m)
        if estimate.weights is not None:
            facts |= _weight_facts(estimate.weights)
        effective: dict[str, float] = {}
        if facts.get("ess_fraction") is not None:
            effective[EFFECTIVE_SAMPLE_SIZE] = facts["ess_fraction"] * len(problem.reward)
        # The least that the policies allow: of importance weights of actions, where a standard
        # error is built on them.
        known = Access.PROPENSITY | Access.TARGET_POLICY
        by_policies = self.view is not None and known in self.view.access
        if by_policies and estimate.weight_space == "action" and data.least_effective is not None:
            effective[LEAST_EFFECTIVE] = data.least_effective
        facts["diagnostics"] = {
            **effective,
            **estimate.diagnostics,
            **weight_diagnostics(problem, estimate),
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

    def _withdraw(self) -> None:
        """Remove the answer of a trial that failed after all."""
        for name in _ANSWER:
            self.facts[name] = None

    def set_failure(self, exc: BaseException) -> None:
        if isinstance(exc, PositivityViolation):
            self.status = Status.POSITIVITY
        elif isinstance(exc, UnavailableError):
            self.status = Status.UNAVAILABLE
        elif isinstance(exc, SystemExit):
            self.status = Status.CRASH
        else:
            self.status = Status.MEMORY if ran_out_of_memory(exc) else Status.ERROR
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
        """Fail the trial if it changed the data, which are discarded."""
        changed = workspace.changes()
        if changed:
            self._withdraw()
            msg = f"changed data of all trials: {', '.join(changed)}; {COPY_FIRST}"
            self.set_failure(DataError(msg))

    def to_record(self, tail: OutputTail) -> TrialRecord:
        violations = self.view.violations if self.view else []
        if violations and self.status is not Status.ERROR:
            # The violation counts even if the estimator caught the AccessError.
            self.status = Status.ERROR
            self._withdraw()
            self.facts["error_type"] = "AccessError"
            self.facts["error_message"] = f"read undeclared view.{', view.'.join(violations)}"
        self.facts["output_tail"] = tail.text()
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
