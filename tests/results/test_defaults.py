"""Other values than the defaults: paired by world and data set, chosen on odd worlds."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from judging.pages.defaults import Alternative, alternatives, defaults_section

from ope_bench.base.canonical import canonical_json
from ope_bench.plugins.spec import resolve


def rows(estimator, params, errors, status="ok"):
    """A trial a world and replicate; world 4 is a damaged one."""
    text = canonical_json(resolve("estimator", estimator, params).params)
    for world, its in errors.items():
        given = {"world": world}
        environment = "population"
        if world == 4:
            given, environment = {"environment": "population[known=policy,world=4]"}, "damaged"
        for replicate, error in enumerate(its):
            yield {
                "fit_cpu_seconds": 0.1,
                "environment": environment,
                "environment_params": json.dumps(given),
                "estimator": estimator,
                "params": text,
                "replicate": replicate,
                "status": status,
                "estimate": 1.0 + error,
                "standard_error": None,
                "interval_low": None,
                "interval_high": None,
                "truth_expected": 1.0,
                "truth_empirical": 1.0,
                "diagnostics": "{}",
            }


@pytest.fixture
def results(tmp_path: Path) -> Path:
    worlds = {1: [1.0, 1.0], 2: [1.0, 1.0], 3: [2.0, 2.0], 4: [1.0, 3.0], 5: [1.0, 1.0]}
    half = {world: [one / 2 for one in its] for world, its in worlds.items() if world != 5}
    average = {world: [9.0, 9.0] for world in worlds}
    usual = [*rows("ipw", {}, worlds), *rows("logging-average", {}, average)]
    other = [*rows("logging-average", {}, average), *rows("ipw", {"clip": "root-n"}, half)]
    other += rows("ipw", {"clip": "root-n"}, {5: [0.1, 0.1]}, status="unavailable")
    for folder, made in (("field", usual), ("field-defaults", other)):
        (tmp_path / folder).mkdir()
        pq.write_table(pa.Table.from_pylist(made), tmp_path / folder / "trials.parquet")
    return tmp_path


def test_a_world_is_compared_on_its_own_data_sets_and_left_out_where_nothing_could_run(results):
    (one,) = alternatives(results)
    assert one.change == {"clip": (None, "root-n")}
    np.testing.assert_allclose([*one.odd, *one.even], 0.5, rtol=1e-12)
    assert one.verdict == "better on both"
    assert "`clip` `root-n` for `null`" in defaults_section(results)


def test_odd_worlds_choose_and_even_ones_confirm():
    def verdict(odd, even):
        return Alternative("x", {}, odd, even).verdict

    better, open_, worse = (0.8, 0.7, 0.9), (0.9, 0.8, 1.1), (1.2, 1.1, 1.3)
    assert verdict(better, better) == "better on both"
    assert verdict(better, open_) == "better on odd worlds, not confirmed"
    assert verdict(open_, better) == "no better on odd worlds"
    assert verdict(worse, better) == "worse"
