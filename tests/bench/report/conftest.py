"""A store with something of everything that a report must show, and a browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ope_bench.plugins.spec import PluginSpec
from ope_bench.report.content import ReportData
from ope_bench.store import Store
from ope_bench.trials.record import Trial, TrialRecord
from ope_bench.trials.status import Device, Status
from support.browser import CHROMIUM, Browser

HOSTILE = "<script>alert(1)</script>"
SURROGATE = "ope-bench 0.1.0 (surrogate (items=10))"

Made = Callable[..., TrialRecord]


def made(
    estimator: str = "ipw",
    replicate: int = 0,
    error: float | None = 0.1,
    status: Status = Status.OK,
    n: int = 10,
    **facts: Any,
) -> TrialRecord:
    """A record of one trial on a toy setting whose truth is 1."""
    origin = facts.pop("origin", "ope-bench 0.1.0")
    environment = facts.pop("environment", "toy")
    device = facts.pop("device", "cpu")
    trial = Trial(
        PluginSpec("environment", environment, environment, {"n_actions": n}, version=1),
        PluginSpec("estimator", estimator, estimator, {"clip": None}, origin=origin),
        replicate,
        device=Device(device),
    )
    known = {
        "estimate": 1.0 + error if status is Status.OK and error is not None else None,
        "truth_expected": 1.0,
        "truth_expected_se": 0.01,
        "truth_empirical": 1.0,
        "logging_average": 0.5,
        "origin": origin,
        "environment_origin": "ope-bench 0.1.0",
        "access": ("samples",),
    }
    return TrialRecord(trial, "digest", status, **(known | facts))


def plenty() -> list[TrialRecord]:
    """Three settings, five methods, most statuses, times, a hostile plugin, surrogate data."""
    rng = np.random.default_rng(0)
    records = []
    for n in (10, 50, 200):
        for replicate in range(12):
            for place, name in enumerate(("ipw", "dm", "eipw")):
                error = float(rng.normal() * (place + 1) * 0.1)
                records.append(
                    made(
                        name,
                        replicate,
                        error,
                        n=n,
                        fit_seconds=0.01 * (place + 1),
                        estimate_seconds=0.001,
                        exclusive=True,
                        unsupported_mass=n / 1000,
                        observed_unsupported_mass=n / 500,
                        access=("propensity", "target_policy") if name == "ipw" else ("samples",),
                    )
                )
            records.append(
                made("ipw-star", replicate, status=Status.POSITIVITY, n=n, fallback=2.0)
                if n == 200
                else made("ipw-star", replicate, float(rng.normal()), n=n)
            )
            broken = replicate % 3 == 0
            records.append(
                made(
                    HOSTILE,
                    replicate,
                    float(rng.normal()),
                    Status.ERROR if broken else Status.OK,
                    n,
                    origin=f"acme 1.2 {HOSTILE}",
                    error_type="ValueError" if broken else None,
                    error_message=f"no {HOSTILE} & such" if broken else None,
                    traceback=f"Traceback\nValueError: no {HOSTILE} & such" if broken else None,
                )
            )
    return records + [
        made("ipw", replicate, 0.2, environment="pictures", environment_origin=SURROGATE)
        for replicate in range(3)
    ]


@pytest.fixture
def stored(tmp_path: Path) -> Callable[..., Path]:
    """Put records into a store, through one run."""

    def put(records: list[TrialRecord], *, dirty: bool = False, truth: str = "empirical") -> Path:
        path = tmp_path / "store.sqlite"
        machine = {"cpu": "a <cpu>", "git": {"revision": "abc123", "dirty": dirty}}
        with Store.open(path, write=True) as store:
            run = store.begin_run(
                suite="adhoc",
                truth=truth,
                command="ope-bench run",
                planned=len(records),
                machine=machine,
            )
            for record in records:
                store.add(record, run)
            store.end_run(run, 0)
        return path

    return put


@pytest.fixture
def content(stored: Callable[..., Path]) -> ReportData:
    """The content of a store with something of everything."""
    return ReportData.read(stored(plenty(), dirty=True))


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make pages whose charts stay empty: a browser takes as long for Vega as for all else."""
    waiting = "window.vegaEmbed = () => new Promise(() => {});"
    monkeypatch.setattr("ope_bench.report.page.html.vega", lambda: waiting)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests."""
    if CHROMIUM is None:
        pytest.skip("there is no chromium here to open pages with")
    found = Browser()
    yield found
    found.close()
