"""Estimators of other packages: the same data as ours, and what other code makes of their rows."""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pyarrow.parquet as pq
import pytest
from judging.pages.others import PACKAGES, errors_of, log_errors, others_section

from support.paths import RESULTS

FOLDER = RESULTS / "others"


def test_at_least_five_estimators_of_others_run_on_the_same_data_sets():
    errors = errors_of(RESULTS)
    assert len(PACKAGES) >= 5
    assert set(PACKAGES) < set(errors)
    (logs,) = {tuple(sorted(by)) for by in errors.values()}
    assert len(logs) == 80
    assert len({world for world, _ in logs}) == 20


def test_a_failure_of_others_counts_with_the_larger_of_two_errors():
    errors = {
        "logging-average": {(1, 0): -3.0, (1, 1): 1.0},
        "ipws": {(1, 0): 2.0, (1, 1): -4.0},
        "obp/dm": {(1, 0): math.nan, (1, 1): math.nan},
        "vw-ips": {(1, 0): 0.5, (1, 1): math.nan},
    }
    told = log_errors(errors)
    assert np.exp(2 * told["obp/dm"]) == pytest.approx([(9 + 16) / 2])
    assert np.exp(2 * told["vw-ips"]) == pytest.approx([(0.25 + 16) / 2])


def test_sums_of_weights_are_ours_where_the_packages_compute_the_same():
    rows = pq.read_table(FOLDER / "answers.parquet").to_pylist()
    told = {
        (row["environment_params"], row["replicate"], row["estimator"]): row["estimate"]
        for row in rows
    }
    for params, replicate, name in told:
        if name == "ipws":
            at = params, replicate
            assert told[*at, "vw-snips"] == pytest.approx(told[*at, "ipws"], rel=1e-9)
            assert told[*at, "coba-ips"] == pytest.approx(told[*at, "vw-ips"], rel=1e-9)
            # A defect: it rounds to two decimals.
            assert told[*at, "offline-ips"] == pytest.approx(told[*at, "vw-ips"], abs=0.005001)


def test_the_figures_of_the_page_are_those_by_hand():
    text = others_section(RESULTS)
    rows = pq.read_table(FOLDER / "answers.parquet").to_pylist()
    logs = {}
    for name in ("vw-mle", "ipws"):
        worlds = {}
        for row in rows:
            if row["estimator"] == name:
                error = row["estimate"] - row["truth_expected"]
                worlds.setdefault(json.loads(row["environment_params"])["world"], []).append(error)
        logs[name] = np.array(
            [np.log(np.sqrt(np.mean(np.square(worlds[k])))) for k in sorted(worlds)]
        )
    ratio = np.exp((logs["vw-mle"] - logs["ipws"]).mean())
    assert re.search(rf"`bandits.mle` \| {ratio:.2f} \(", text)


def test_each_line_names_its_authors_behind_the_release():
    for words in PACKAGES.values():
        assert re.match(r"[\w -]+ [\d.]+ \([A-Z]\w+[^)]+\), ", words), words
