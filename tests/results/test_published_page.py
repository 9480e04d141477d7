"""The page of published tables: what stands beside a published number."""

import json
import math

import numpy as np
import pytest
from judging.pages.published import LIMIT, _section


@pytest.fixture
def folder(tmp_path):
    """Two settings with two rows of four trials; errors of the second are twice the first's."""
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    errors = {"ipw": [0.1, -0.3, 0.2, 0.2], "dm": [1.0, 1.0, 1.1, 0.9]}
    setting = {"dataset": "keel:tiny", "target_softmax": 10.0, "worlds": "redrawn"}
    other = setting | {"target_softmax": 5.0}
    rows = [
        {
            "environment": "multiclass",
            "environment_params": json.dumps(params),
            "estimator": name,
            "params": "{}",
            "label": name.upper(),
            "replicate": k,
            "status": "ok",
            "estimate": 2.0 + error,
            "truth_expected": 2.0,
            "interval_low": 1.0 + error,
        }
        for params, factor in ((setting, 1.0), (other, 2.0))
        for name, values in errors.items()
        for k, error in enumerate(factor * np.array(values))
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "trials.parquet")
    return tmp_path


def told(measure="mse", where=None, **cells):
    row = {
        "where": where or {"target_softmax": 10.0},
        "cells": cells,
        "why": {"DM": "another model"},
    }
    return {"title": "T", "source": "S.", "suite": "s", "measure": measure, "rows": [row]}


def test_ours_has_its_mean_and_its_error_and_the_difference_that_of_both(folder):
    text, cells, same = _section(told(IPW=[0.05, 0.02], DM=[0.5, 0.1]), folder)
    assert (cells, same) == (2, 1)
    each = np.square([0.1, -0.3, 0.2, 0.2])
    error = each.std(ddof=1) / 2
    gap = (each.mean() - 0.05) / math.hypot(error, 0.02)
    assert abs(gap) < LIMIT
    assert (
        f"| IPW | 0.05 ± 0.02 | {each.mean():.3g} ± {error:.2g} | {gap:+.1f} | reproduced |"
        in text
    )
    (line,) = (one for one in text.splitlines() if "| DM |" in one)
    assert line.endswith("| another model |")


def test_relative_errors_are_over_the_value(folder):
    text, _, _ = _section(told("relative-ee", IPW=[0.1, 0.01]), folder)
    assert f"| {np.abs([0.1, -0.3, 0.2, 0.2]).mean() / 2:.3g} ±" in text


def test_a_row_of_several_settings_is_their_mean_and_a_source_without_errors_has_one_log_each(
    folder,
):
    where = {"dataset": "keel:tiny"}
    text, _, _ = _section(told("radius", where, IPW=[0.5, None]), folder)
    each = (1.0 - 1.5 * np.array([0.1, -0.3, 0.2, 0.2])) / 2.0
    ours, spread = each.mean(), each.std(ddof=1)
    assert f"| IPW | 0.5 ± {spread:.2g} | {ours:.3g} ± {spread / 2:.2g} |" in text


def test_a_setting_that_there_is_not_stops_it(folder):
    with pytest.raises(LookupError, match="keel:other"):
        _section(told(where={"dataset": "keel:other"}, IPW=[1, 1]), folder)
