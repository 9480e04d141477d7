"""Seconds of what is done with many records: planned, stored, looked up, read, compared."""

import itertools

import numpy as np
import pytest

from ope_bench.boards.leaderboard import boards
from ope_bench.plugins.spec import PluginSpec
from ope_bench.store import Freshness, Store
from ope_bench.suites.manifest import plan
from ope_bench.suites.suite import adhoc
from ope_bench.trials.record import Trial, TrialRecord
from ope_bench.trials.status import Status

SETTINGS, ESTIMATORS, REPLICATES = 5, 10, 100


@pytest.fixture(scope="module")
def records():
    rng = np.random.default_rng(0)
    made = []
    for setting in range(SETTINGS):
        world = PluginSpec("environment", "toy", "toy", {"n": setting}, origin="toys 1")
        methods = [
            PluginSpec("estimator", f"method-{number}", f"method-{number}", {}, origin="ours 1")
            for number in range(ESTIMATORS)
        ]
        for replicate, method in itertools.product(range(REPLICATES), methods):
            trial = Trial(world, method, replicate)
            known = {
                "estimate": 1.0 + 0.1 * rng.normal(),
                "truth_expected": 1.0,
                "truth_expected_se": 0.01,
                "truth_empirical": 1.0 + 0.01 * rng.normal(),
                "logging_average": 0.5,
                "fit_seconds": 0.1,
                "diagnostics": {"mean_weight": 1.0},
            }
            made.append(TrialRecord(trial, "digest", Status.OK, **known))
    return made


def filled(path, records):
    with Store.open(path, write=True) as store:
        run = store.begin_run(suite="benchmark", truth="empirical")
        for record in records:
            store.add(record, run)
    return path


def test_planning_ten_thousand_trials_with_their_keys(benchmark):
    def planned():
        worlds = ["saito-toy[n_actions=[10,20,50,100]]"]
        methods = ["ipw[clip=[1,2,3,4,5]]", "eipw[clip=[1,2,3,4,5]]"]
        from dataclasses import replace

        manifest = plan(replace(adhoc(worlds, methods), replicates=250))
        return {trial.key for trial in manifest.trials}

    keys = benchmark.pedantic(planned, rounds=2, warmup_rounds=1)
    assert len(keys) == 10_000


def test_storing_a_thousand_records_one_by_one(benchmark, records, tmp_path):
    numbers = itertools.count()

    def store():
        return filled(tmp_path / f"{next(numbers)}.sqlite", records[:1_000])

    benchmark.pedantic(store, rounds=3)


def test_looking_up_five_thousand_trials(benchmark, records, tmp_path):
    path = filled(tmp_path / "store.sqlite", records)
    trials = [record.trial for record in records]

    def current():
        with Store.open(path) as store:
            fresh = Freshness(lambda trial: "digest")
            return store.current(trials, fresh)

    assert len(benchmark.pedantic(current, rounds=3)) == len(records)


def test_reading_five_thousand_records(benchmark, records, tmp_path):
    path = filled(tmp_path / "store.sqlite", records)

    def read():
        with Store.open(path) as store:
            return list(store.results(suite="benchmark"))

    assert len(benchmark.pedantic(read, rounds=3)) == len(records)


def test_boards_of_five_thousand_records(benchmark, records):
    found = benchmark.pedantic(boards, (records,), rounds=2)
    assert len(found) == SETTINGS


def test_one_board_as_text(benchmark, records):
    from ope_bench.report.boards import render

    found = boards(records[: ESTIMATORS * REPLICATES])
    assert "method-3" in benchmark.pedantic(render, (found,), rounds=3)
