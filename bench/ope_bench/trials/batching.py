"""Batched training: shared fits of a whole block of replicates.

On a batched device the first trial of a block trains its estimator's shared fits for every
replicate of the block and puts them into the fit cache that `View.fitted` reads; then each trial
runs as usual. An error from one replicate's data is cached too, and raised in that replicate's
trials alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ope_bench.base.canonical import digest
from ope_bench.contracts.plugins import Environment, Estimator
from ope_bench.contracts.view import (
    Access,
    BatchedNuisance,
    CachedFit,
    FitCache,
    View,
    nuisance_key,
)
from ope_bench.trials import timing
from ope_bench.trials.isolation import isolated, seed_global_states
from ope_bench.trials.record import Trial
from ope_bench.trials.sealing import Seal

OnBatch = Callable[[int], None]
"""A function of the number of replicates, called before a block is trained."""


def block_of(trial: Trial) -> list[Trial]:
    """Return the trial for every replicate of its block, planned or not."""
    size = trial.device.block_size
    first = trial.replicate - trial.replicate % size
    return [replace(trial, replicate=number) for number in range(first, first + size)]


@dataclass
class _Block:
    """The fit caches of a block's replicates, and its peak memory."""

    group: str = ""
    fit_caches: dict[int, FitCache] = field(default_factory=dict)
    trained: set[str] = field(default_factory=set)
    peak_rss_bytes: int = 0
    peak_gpu_bytes: int = 0


class BlockCache:
    """Per-worker cache of the block of the last batched trial.

    Parameters
    ----------
    mapped : as for `Seal`.
    """

    def __init__(self, mapped: bool = False) -> None:
        self._mapped = mapped
        self._block = _Block()

    def fits_for(
        self,
        trial: Trial,
        environment: Environment,
        estimator: Estimator,
        on_batch: OnBatch | None = None,
    ) -> FitCache:
        """Return the fits of the trial's replicate, after training the block's missing ones."""
        if self._block.group != trial.group:
            # Free the old block before building the new one.
            self._block = _Block()
            fit_caches = {item.replicate: FitCache() for item in block_of(trial)}
            self._block = _Block(trial.group, fit_caches)
        block, device = self._block, trial.device.backend
        missing = [
            spec for spec in estimator.batched if nuisance_key(spec, device) not in block.trained
        ]
        if missing:
            if on_batch is not None:
                on_batch(len(block.fit_caches))
            timing.warm_up(device)
            timing.reset_peak_rss()
            # A seed per block, for plugins that draw from a global generator.
            with isolated(int(digest(["batch", trial.group])[:8], 16)):
                for spec in missing:
                    _train(spec, block, block_of(trial), environment, self._mapped)
            block.peak_rss_bytes = max(block.peak_rss_bytes, timing.peak_rss_bytes() or 0)
            block.peak_gpu_bytes = max(block.peak_gpu_bytes, timing.peak_gpu_bytes(device) or 0)
        return block.fit_caches[trial.replicate]

    def peaks(self) -> tuple[int, int]:
        """Return peak resident and GPU memory, in bytes, of training the block."""
        return self._block.peak_rss_bytes, self._block.peak_gpu_bytes

    def clear(self) -> None:
        """Discard the block."""
        self._block = _Block()


def _train(
    spec: BatchedNuisance[Any],
    block: _Block,
    members: Sequence[Trial],
    environment: Environment,
    mapped: bool,
) -> None:
    """Train a shared fit for all replicates, each charged an equal share of the cost."""
    device = members[0].device.backend
    key = nuisance_key(spec, device)
    inner: dict[int, set[str]] = {trial.replicate: set() for trial in members}
    prepared: dict[int, Any] = {}
    outcome: dict[int, Any] = {}
    wall = cpu = 0.0
    for trial in members:
        number = trial.replicate
        try:
            view = _view(trial, environment, block.fit_caches[number], mapped)
            with timing.measured(device) as cost:
                prepared[number] = view.begin_batched(spec, inner[number])
            wall, cpu = wall + cost.wall_seconds, cpu + cost.cpu_seconds
        except KeyboardInterrupt:
            raise
        # Also SystemExit: an error in one replicate must not fail the other replicates of the
        # block.
        except BaseException as exc:
            outcome[number] = exc
    with timing.measured(device) as cost:
        try:
            fits = spec.complete(list(prepared.values()), device=device) if prepared else ()
            outcome |= zip(prepared, fits, strict=True)
        except Exception as exc:
            outcome |= dict.fromkeys(prepared, exc)
    wall, cpu = (wall + cost.wall_seconds) / len(members), (cpu + cost.cpu_seconds) / len(members)
    for number, result in outcome.items():
        failed = isinstance(result, BaseException)
        entry = CachedFit(
            None if failed else result,
            wall,
            cpu,
            result if failed else None,
            result.__traceback__ if failed else None,
            frozenset(inner[number]),
        )
        block.fit_caches[number].put(key, entry)
    block.trained.add(key)


def _view(trial: Trial, environment: Environment, fit_cache: FitCache, mapped: bool) -> View:
    """Return the view on which a replicate's shared fits are trained."""
    seed = trial.data_seed
    seed_global_states(seed.global_seed(""))
    problem, _ = environment.sample(
        world_rng=seed.world(), logged_rng=seed.logged(), target_rng=seed.target()
    )
    problem = Seal(problem, mapped=mapped).problem
    return View(
        problem, Access.SAMPLES, seed=seed, fit_cache=fit_cache, device=trial.device.backend
    )
