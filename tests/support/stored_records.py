"""Records to store, and stores that hold some."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ope_bench.plugins.spec import PluginSpec
from ope_bench.store import Store
from ope_bench.trials.record import Trial, TrialRecord
from ope_bench.trials.status import Status

WORLD = PluginSpec("environment", "saito-toy", "saito-toy", {"n_actions": 10, "beta": -1.0})
METHOD = PluginSpec("estimator", "ipw", "ipw", {"clip": None}, origin="ope-bench 0.1.0")


def trial(replicate: int = 0, method: PluginSpec = METHOD, **more: Any) -> Trial:
    return Trial(WORLD, method, replicate, **more)


def record(one: Trial | None = None, status: Status = Status.OK, **facts: Any) -> TrialRecord:
    facts = {"code_digest": "c0de", "estimate": 0.5, **facts}
    return TrialRecord(one or trial(), status=status, **facts)


def begin(store: Store, **more: Any) -> str:
    return store.begin_run(**{"suite": "quick", "truth": "empirical", **more})


def filled(path: Path, *records: TrialRecord, **run: Any) -> str:
    with Store.open(path, write=True) as store:
        run_id = begin(store, **run)
        for one in records:
            store.add(one, run_id)
    return run_id
