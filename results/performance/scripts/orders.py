"""Whether an estimator changes a bit of another: every pair in both orders, in one worker.

    python results/performance/scripts/orders.py [ENVIRONMENT ...]

All built-in estimators run on one data set in an order, in its reverse, and each as the first of a
new worker. Of any two each stands before the other once, so equal bits in all three say that no
pair depends on its order. The environments together allow every access.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

from ope_bench.execution import Finished
from ope_bench.execution.local import LocalExecutor
from ope_bench.plugins.registry import registry
from ope_bench.suites.manifest import specs_of
from ope_bench.trials.record import Trial, TrialRecord

ENVIRONMENTS = (
    "saito-toy[n_samples=200,n_actions=5]",
    "gaussian[n_samples=200]",
    "linear-gaussian[n_samples=200]",
    "ranking[n_samples=200]",
    "linear-bandit[n_samples=200,target=softmax,target_beta=2,loggers=[-2,2]]",
)
"""Policies; embeddings with densities; continuous actions; lists; several loggers."""


def of_all(environment: str) -> list[Trial]:
    """Return a trial of every estimator of ope-bench."""
    (world,) = specs_of("environment", environment)
    return [
        Trial(world, one, 0)
        for plugin in registry().plugins("estimator")
        if plugin.origin.startswith("ope-bench ") and not plugin.id.startswith("obp/")
        for one in specs_of("estimator", plugin.id)
    ]


def answers(trials: Sequence[Trial]) -> dict[str, Any]:
    """Run trials in their order in one new worker; return what each answered, to the bit."""
    with LocalExecutor(1, timeout=600) as executor:
        found = [one.record for one in executor.run(trials) if isinstance(one, Finished)]
    return {one.trial.estimator.id: _bits(one) for one in found}


def _bits(record: TrialRecord) -> Any:
    diagnostics = {name: repr(value) for name, value in record.diagnostics.items()}
    answer = (record.status.value, repr(record.estimate), repr(record.standard_error))
    return (*answer, diagnostics, record.note)


def main() -> None:
    """Print a line for each environment, and every estimator whose bits differ."""
    for environment in sys.argv[1:] or ENVIRONMENTS:
        began, trials = time.monotonic(), of_all(environment)
        forward = answers(trials)
        backward = answers(trials[::-1])
        alone: dict[str, Any] = {}
        for trial in trials:
            if forward[trial.estimator.id][0] == "ok":
                alone |= answers([trial])
        differ = [
            name
            for name, answer in forward.items()
            if answer != backward[name] or (name in alone and answer != alone[name])
        ]
        sys.stdout.write(
            f"{environment}: {len(forward)} estimators, {len(alone)} ok, {len(differ)} differ "
            f"{' '.join(differ)} ({time.monotonic() - began:.0f} s)\n"
        )
        sys.stdout.flush()


if __name__ == "__main__":
    main()
