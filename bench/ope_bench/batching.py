"""Batches: shared fits of a whole block of replicates, made at once.

On a batched device the first trial of a block trains what its estimator shares, for every
replicate of the block, and puts it where `View.fitted` looks first; then each trial runs as any
other. What goes wrong with one replicate's data waits there too, and is raised in that
replicate's trials alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ope_bench import timing
from ope_bench.devices import BLOCK, place
from ope_bench.environment import Environment
from ope_bench.estimator import Estimator
from ope_bench.isolation import isolated
from ope_bench.memo import Entry, Found, Memo
from ope_bench.records import Trial
from ope_bench.seeding import digest
from ope_bench.view import Access, BatchedNuisance, View, nuisance_key

__all__ = ["Batches", "OnBatch", "block_of"]

OnBatch = Callable[[int], None]
"""Told, before a block is trained, of how many replicates."""


def block_of(trial: Trial) -> list[Trial]:
    """The trial for every replicate of its block, whether a plan asks for it or not."""
    size = BLOCK[trial.device]
    first = trial.replicate - trial.replicate % size
    return [replace(trial, replicate=number) for number in range(first, first + size)]


@dataclass
class _Block:
    """What is known of a block, by replicate."""

    group: str = ""
    memos: dict[int, Memo] = field(default_factory=dict)
    trained: set[str] = field(default_factory=set)
    peak_rss_bytes: int = 0
    peak_gpu_bytes: int = 0


class Batches:
    """A worker's block, that of the last batched trial."""

    def __init__(self) -> None:
        self._block = _Block()

    def memo(
        self,
        trial: Trial,
        environment: Environment,
        estimator: Estimator,
        on_batch: OnBatch | None = None,
    ) -> Memo:
        """The fits of the trial's replicate, trained now or when a trial before needed them."""
        if self._block.group != trial.group:
            # The old one is dropped first.
            self._block = _Block()
            memos = {one.replicate: Memo() for one in block_of(trial)}
            self._block = _Block(trial.group, memos)
        block, device = self._block, place(trial.device)
        missing = [
            spec for spec in estimator.batched if nuisance_key(spec, device) not in block.trained
        ]
        if missing:
            if on_batch is not None:
                on_batch(len(block.memos))
            timing.warm_up(device)
            timing.reset_peak_rss()
            # A stream of the block's own, should a plugin draw from a global one after all.
            with isolated(int(digest(["batch", trial.group])[:8], 16)):
                for spec in missing:
                    _train(spec, block, block_of(trial), environment)
            block.peak_rss_bytes = max(block.peak_rss_bytes, timing.peak_rss_bytes() or 0)
            block.peak_gpu_bytes = max(block.peak_gpu_bytes, timing.peak_gpu_bytes(device) or 0)
        return block.memos[trial.replicate]

    def peaks(self) -> tuple[int, int]:
        """Bytes of resident and of GPU memory that training the block took at most."""
        return self._block.peak_rss_bytes, self._block.peak_gpu_bytes

    def clear(self) -> None:
        """Forget the block."""
        self._block = _Block()


def _train(
    spec: BatchedNuisance[Any], block: _Block, members: Sequence[Trial], environment: Environment
) -> None:
    """Make a shared fit for all replicates, each of which bears an equal share of the cost."""
    device = place(members[0].device)
    key = nuisance_key(spec, device)
    found = {one.replicate: Found() for one in members}
    begun: dict[int, Any] = {}
    outcome: dict[int, Any] = {}
    wall = cpu = 0.0
    for one in members:
        number = one.replicate
        try:
            view = _view(one, environment, block.memos[number])
            with timing.measured(device) as cost:
                begun[number] = view.begun(spec, found[number])
            wall, cpu = wall + cost.wall_seconds, cpu + cost.cpu_seconds
        except KeyboardInterrupt:
            raise
        # SystemExit included: what one replicate's data lead to is the affair of its own trials.
        except BaseException as exc:
            outcome[number] = exc
    with timing.measured(device) as cost:
        try:
            made = spec.complete(list(begun.values()), device=device) if begun else ()
            outcome |= zip(begun, made, strict=True)
        except Exception as exc:
            outcome |= dict.fromkeys(begun, exc)
    wall, cpu = (wall + cost.wall_seconds) / len(members), (cpu + cost.cpu_seconds) / len(members)
    for number, result in outcome.items():
        failed = isinstance(result, BaseException)
        entry = Entry(
            None if failed else result,
            wall + found[number].wall_seconds,
            cpu + found[number].cpu_seconds,
            result if failed else None,
            result.__traceback__ if failed else None,
        )
        block.memos[number].put(key, entry)
    block.trained.add(key)


def _view(trial: Trial, environment: Environment, memo: Memo) -> View:
    """What a shared fit sees of a replicate."""
    seed = trial.data_seed
    problem, _ = environment.sample(
        world_rng=seed.world(), logged_rng=seed.logged(), target_rng=seed.target()
    )
    return View(problem, Access.SAMPLES, seed=seed, memo=memo, device=place(trial.device))
