"""``ope-bench run --dry-run``: summarize a plan and predict its duration."""

from __future__ import annotations

import textwrap
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ope_bench.cli.exit_codes import CLEAN, EMPTY
from ope_bench.cli.running.prediction import predict
from ope_bench.cli.running.unplanned import unplanned, why_empty
from ope_bench.execution.calibration import calibration_seconds
from ope_bench.execution.machine import available_cores
from ope_bench.execution.runner import digest_of
from ope_bench.store import Freshness, Seconds, Store
from ope_bench.suites.manifest import Manifest
from ope_bench.suites.selector import selector_of
from ope_bench.trials.status import Retry
from ope_bench.units import format_estimate

__all__ = ["PlanSummary", "plan_summary"]

WIDTH = 80

BUSY = 1.75
"""How many processes a core must have for a note."""


@dataclass(frozen=True, kw_only=True)
class PlanSummary:
    """Summary of a plan.

    Parameters
    ----------
    suite : name of the suite.
    store : path of the store.
    environments, estimators : numbers of settings.
    cells : environment, estimator and device of each planned combination.
    replicates : number of data sets of each environment setting.
    planned, stored, to_run : numbers of trials: all, those with a stored outcome, and the others.
    alone : number of trials of ``to_run`` that run alone, for timing.
    jobs : number of trials at once.
    predicted_seconds : of trials whose time is known or guessed, None without any.
    without_timings : number of trials of ``to_run`` without stored timings of similar trials.
    guessed, unknown : number of trials of ``to_run`` whose time is guessed from other sizes or
        parameters, and that ``predicted_seconds`` does not count, because nothing is known.
    time : the same in words.
    busy : how much longer it takes beside what else runs on this machine; empty if not.
    exit_code : of the run, if every trial succeeds.
    reason : why nothing is planned, or which estimators are left out; empty if none.
    """

    suite: str
    store: str
    environments: int
    estimators: int
    cells: tuple[dict[str, str], ...]
    replicates: int
    planned: int
    stored: int
    to_run: int
    alone: int
    jobs: int
    predicted_seconds: float | None
    without_timings: int
    guessed: int
    unknown: int
    time: str
    busy: str
    exit_code: int
    reason: str

    def as_json(self) -> dict[str, Any]:
        """Return the document of ``run --dry-run --format json``."""
        return {"schema": 1, "dry_run": True, **asdict(self)}

    def as_text(self) -> str:
        """Format the summary as text."""
        if not self.planned:
            return f"{self.suite}: {self.reason}"
        lines = [
            f"suite   {self.suite}",
            (
                f"plan    {self.planned:,} trials = {self.environments} settings x "
                f"{self.estimators} estimators x {self.replicates} replicates"
            ),
        ]
        if len(self.cells) != self.environments * self.estimators:
            lines.append(f"cells   {len(self.cells)} after exclusions and devices")
        lines += [self.reason] if self.reason else []
        lines.append(f"stored  {self.stored:,} in {self.store}")
        alone = f", {self.alone:,} of them alone" if self.alone else ""
        lines.append(f"to run  {self.to_run:,} with {self.jobs} jobs{alone}")
        lines.append(f"time    {self.time}")
        lines += [f"busy    {self.busy}"] if self.busy else []
        return "\n".join(
            textwrap.fill(line, WIDTH, subsequent_indent=" " * 8, break_on_hyphens=False)
            for line in lines
        )


def plan_summary(manifest: Manifest, path: Path, jobs: int, retry: Retry | None) -> PlanSummary:
    """Summarize a plan without writing; the store need not exist.

    Parameters
    ----------
    manifest : the plan.
    path : path of the store.
    jobs : number of trials at once.
    retry : as for the run.
    """
    trials = manifest.trials
    stored: set[str] = set()
    seconds: dict[str, Seconds] = {}
    if path.exists() and trials:
        stored, seconds = _known(manifest, path, retry)
    to_run = [trial for trial in trials if trial.key not in stored]
    alone = [trial for trial in to_run if manifest.exclusive(trial)]
    together = [trial for trial in to_run if not manifest.exclusive(trial)]
    # More jobs than cores do not make a run shorter.
    at_once = min(jobs, available_cores())
    prediction = predict(together, trials, seconds, at_once, calibration_seconds)
    prediction += predict(alone, trials, seconds, 1, calibration_seconds)
    unknown = sum(prediction.unknown.values())
    cells = manifest.cells
    return PlanSummary(
        suite=manifest.suite.name,
        store=str(path),
        environments=len({id(cell.environment) for cell in cells}),
        estimators=len({id(cell.estimator) for cell in cells}),
        cells=tuple(
            {
                "environment": selector_of(cell.environment),
                "estimator": selector_of(cell.estimator),
                "device": cell.device.value,
            }
            for cell in cells
        ),
        replicates=manifest.suite.replicates,
        planned=len(trials),
        stored=len(stored),
        to_run=len(to_run),
        alone=len(alone),
        jobs=jobs,
        predicted_seconds=prediction.seconds if unknown < len(to_run) or not to_run else None,
        without_timings=len(to_run) - prediction.stored,
        guessed=prediction.guessed,
        unknown=unknown,
        time=prediction.as_text(len(to_run)),
        busy=_busy(prediction.seconds, at_once),
        exit_code=CLEAN if trials else EMPTY,
        reason=unplanned(manifest) if trials else why_empty(manifest),
    )


def _busy(seconds: float, jobs: int) -> str:
    """Say how long a prediction becomes where other processes want the same cores."""
    import psutil

    load, cores = psutil.getloadavg()[0], available_cores()
    share = max(1.0, (load + jobs) / cores)
    if share < BUSY or not seconds:
        return ""
    plural = "" if cores == 1 else "s"
    return (
        f"load {load:.1f} on {cores} core{plural} from other processes: rather "
        f"{format_estimate(share * seconds)}"
    )


def _known(
    manifest: Manifest, path: Path, retry: Retry | None
) -> tuple[set[str], dict[str, Seconds]]:
    """Return the keys of trials with stored outcomes, and seconds of trials of each kind."""
    suite = manifest.suite
    freshness = Freshness(
        digest_of,
        exclusive=manifest.exclusive,
        timeout=suite.timeout,
        memory=suite.memory,
        retry=retry,
    )
    with Store.open(path) as store:
        current = set(store.current(manifest.trials, freshness))
        return current, store.seconds(manifest.trials)
