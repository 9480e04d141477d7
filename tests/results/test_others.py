"""Estimators of other packages: the same data as ours, and what other code makes of their rows."""

from __future__ import annotations

import json
import re

import numpy as np
import pyarrow.parquet as pq
import pytest
from judging.pages.others import PACKAGES, others_section, squares_of

from support.paths import RESULTS

FOLDER = RESULTS / "others"


def test_at_least_five_estimators_of_others_answer_on_the_same_data_sets():
    squares = squares_of(RESULTS)
    assert len(PACKAGES) >= 5
    assert set(PACKAGES) < set(squares)
    assert {tuple(map(len, by.values())) for by in squares.values()} == {(4,) * 20}


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
