"""Records without running anything, for boards, baselines and gates; one worker for commands."""

import numpy as np
import pytest

from ope_bench.cli import session  # noqa: F401  it holds the function that a fixture replaces
from ope_bench.contracts.parameters import LEARNER_FILES
from ope_bench.execution import machine
from ope_bench.plugins.registry import registry
from ope_bench.plugins.spec import PluginSpec
from ope_bench.trials.record import Trial, TrialRecord
from ope_bench.trials.status import Device, Status


@pytest.fixture(autouse=True)
def _one_worker(request, monkeypatch):
    """Let commands start one worker where they would start one for each core.

    Tests that run at the same time share the cores, and most of a worker's time goes to imports.
    Those of execution ask for the workers that they need.
    """
    if "execution" not in request.path.parts:
        monkeypatch.setattr(machine, "available_cores", lambda: 1)


@pytest.fixture(autouse=True)
def _files_allowed(monkeypatch):
    """A command sets this for its process, in which other tests run, too."""
    monkeypatch.setattr(registry(), "files_allowed", True)
    monkeypatch.setitem(LEARNER_FILES, "allowed", True)


@pytest.fixture
def record():
    """A record of one trial on a toy setting whose truth is 1."""

    def make(
        estimator="ipw",
        replicate=0,
        error=0.1,
        status=Status.OK,
        *,
        n=10,
        seed=0,
        version=1,
        params=None,
        label="",
        device="cpu",
        **facts,
    ):
        trial = Trial(
            PluginSpec("environment", "toy", "toy", {"n": n}, version=version, origin="toys 1"),
            PluginSpec(
                "estimator", estimator, estimator, params or {}, label=label, origin="ours 1"
            ),
            replicate,
            seed=seed,
            device=Device(device),
        )
        known = {
            "estimate": 1.0 + error if status is Status.OK else None,
            "truth_expected": 1.0,
            "truth_expected_se": 0.01,
            "truth_empirical": 1.0,
            "logging_average": 0.5,
            "origin": "ours 1",
            "environment_origin": "toys 1",
        }
        return TrialRecord(trial, "digest", status, **(known | facts))

    return make


@pytest.fixture
def normal_row(record):
    """Records of one estimator whose errors are normal."""

    def make(estimator="ipw", scale=0.1, replicates=100, stream=0, **facts):
        errors = scale * np.random.default_rng(stream).normal(size=replicates)
        return [record(estimator, r, float(error), **facts) for r, error in enumerate(errors)]

    return make
