"""Which interval to use when: the rule on made-up trials, and what the committed ones say."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from judging.pages.intervals import (
    BETS,
    FOLDERS,
    HOLDS,
    TRUSTED,
    IntervalTrials,
    LogShape,
    Method,
    choices,
    intervals_page,
    smallest_limit,
)

from ope_bench.statistics.weight_checks import (
    EFFECTIVE_SAMPLE_SIZE,
    LEAST_EFFECTIVE,
    SMALLEST_EFFECTIVE,
)
from support.paths import RESULTS


def _write(folder: Path, rows: Sequence[dict[str, object]]) -> None:
    for name in FOLDERS:
        (folder / name).mkdir(parents=True, exist_ok=True)
        part = [row for row in rows if (row["estimator"] == "ipws-star") == (name != "intervals")]
        pq.write_table(pa.Table.from_pylist(part), folder / name / "trials.parquet")


def _params(kind: str | None) -> dict[str, str]:
    if kind == BETS:
        return {"interval": "guaranteed", "upper_end": "mirrored"}
    return {} if kind is None else {"interval": kind}


def _trials(
    estimator: str,
    kind: str | None,
    *,
    width: float,
    missed: int = 0,
    least: float = 20.0,
    n: int = 200,
    status: str = "ok",
    k: int = 100,
    reward: str = "logistic",
) -> list[dict[str, object]]:
    """Trials of one setting, of which so many lie wholly below the truth, 0."""
    beta = {"logistic": -4.0, "linear": -0.7}[reward]
    rows: list[dict[str, object]] = []
    for number in range(k):
        center = -2 * width if number < missed else 0.0
        own = kind is not None
        facts = {EFFECTIVE_SAMPLE_SIZE: 50.0, LEAST_EFFECTIVE: least}
        setting = {"reward": reward, "logging_beta": beta, "n_samples": n}
        rows.append(
            {
                "environment_params": json.dumps(setting),
                "estimator": estimator,
                "params": json.dumps(_params(kind)),
                "status": status,
                "estimate": center,
                "standard_error": None if own else width / 2 / 1.959963984540054,
                "interval_low": center - width / 2 if own else None,
                "interval_high": center + width / 2 if own else None,
                "truth_expected": 0.0,
                "diagnostics": json.dumps(facts),
            }
        )
    return rows


def _whole(reward: str) -> list[dict[str, object]]:
    """What every class needs: the yardsticks, normal intervals, and estimated policies."""
    return [
        row
        for n, least in ((200, 20.0), (2000, 1.0))
        for row in (
            *_trials("ipw", None, width=1.0, missed=30, least=least, n=n, reward=reward),
            *_trials("ipw", BETS, width=2.0, least=least, n=n, reward=reward),
            *_trials("ipw", "empirical-likelihood", width=3.0, least=least, n=n, reward=reward),
            *_trials("ipws", None, width=1.0, missed=30, least=least, n=n, reward=reward),
            *_trials("dr", None, width=1.0, missed=30, least=least, n=n, reward=reward),
            *_trials("sndr", None, width=1.0, missed=30, least=least, n=n, reward=reward),
            *_trials("ipws-star", "bootstrap", width=0.5, missed=50, n=n, reward=reward),
            *_trials("ipws", "bootstrap", width=0.5, missed=50, n=n, reward=reward),
        )
    ]


def _choice(folder: Path, rows: Sequence[dict[str, object]], *words: str):
    _write(folder, rows)
    return next(
        one
        for one in choices(IntervalTrials(folder))
        if (one.rewards, one.policies, one.weights) == words
    )


def test_the_narrowest_that_holds_is_chosen(tmp_path):
    base = [*_whole("logistic"), *_whole("linear")]
    found = _choice(tmp_path, base, "bounded", "known", "moderate")
    best = found.best
    assert (best.method, best.coverage, best.width) == (Method(BETS, "ipw"), 1.0, 1.0)
    assert found.settings == (LogShape("bounded", 0, 200),)
    assert [one.method.kind for one in found.found if one.holds] == [
        BETS,
        "empirical-likelihood",
    ]
    narrow = _trials("mrdr", None, width=0.5, missed=7)
    best = _choice(tmp_path, [*base, *narrow], "bounded", "known", "moderate").best
    assert (best.method, best.coverage) == (Method("normal", "mrdr"), HOLDS)
    assert best.width == pytest.approx(0.25)
    worse = _trials("mrdr", None, width=0.5, missed=8)
    best = _choice(tmp_path, [*base, *worse], "bounded", "known", "moderate").best
    assert best.method == Method(BETS, "ipw")


def test_a_method_counts_only_where_it_was_run_in_all_settings_of_the_class(tmp_path):
    base = [*_whole("logistic"), *_whole("linear")]
    base += _trials("ipw", None, width=1.0, n=20000)
    base += _trials("ipw", BETS, width=2.0, n=20000)
    some = _trials("mrdr", None, width=0.5)
    found = _choice(tmp_path, [*base, *some], "bounded", "known", "moderate")
    assert found.best.method == Method(BETS, "ipw")
    whole = [*some, *_trials("mrdr", None, width=0.5, n=20000)]
    found = _choice(tmp_path, [*base, *whole], "bounded", "known", "moderate")
    assert found.best.method == Method("normal", "mrdr")


def test_where_none_holds_none_is_named(tmp_path):
    found = _choice(
        tmp_path, [*_whole("logistic"), *_whole("linear")], "bounded", "estimated", "moderate"
    )
    assert found.best is None
    assert "**none holds**" in intervals_page(IntervalTrials(tmp_path))


def test_failed_trials_and_those_without_an_interval_do_not_count(tmp_path):
    failed = _trials("mrdr", None, width=0.5, status="error")
    base = [*_whole("logistic"), *_whole("linear"), *failed]
    _write(tmp_path, base)
    assert Method("normal", "mrdr") not in IntervalTrials(tmp_path).methods()
    with pytest.raises(LookupError, match="regenerate run intervals makes it"):
        IntervalTrials(tmp_path / "nowhere")


def test_the_limit_is_the_smallest_above_which_every_setting_holds(tmp_path):
    whole = [*_whole("logistic"), *_whole("linear")]
    clean = [row for row in whole if json.loads(str(row["params"]))]
    clean += _trials("ipws", None, width=1.0, missed=30, least=2.5)
    clean += _trials("ipws", None, width=1.0, missed=round(100 * (1 - TRUSTED)), least=3.5)
    clean += [
        row
        for reward in ("logistic", "linear")
        for n in (200, 2000)
        for row in _trials("ipw", None, width=1.0, least=8.0, n=n, reward=reward)
    ]
    _write(tmp_path, clean)
    assert smallest_limit(IntervalTrials(tmp_path)) == 3.0
    clean += _trials("ipws", None, width=1.0, missed=60, least=90.0)
    _write(tmp_path, clean)
    assert smallest_limit(IntervalTrials(tmp_path)) is None


@pytest.fixture(scope="module")
def committed() -> IntervalTrials:
    return IntervalTrials(RESULTS)


def test_the_limit_in_the_code_is_what_the_committed_trials_give(committed):
    assert smallest_limit(committed) == SMALLEST_EFFECTIVE


def test_guaranteed_intervals_cover_at_least_nominal_in_every_setting(committed):
    methods = [method for method in committed.methods() if method.kind.startswith("guaranteed")]
    assert {method.estimator for method in methods} == {"ipw", "ls-ipw", "dr"}
    for method in methods:
        cells = committed.of(method, committed.settings)
        assert len(cells) == 9
        for setting, cell in cells:
            assert cell.coverage.value >= 0.95, (str(method), str(setting))


def test_the_suites_span_overlap_rewards_rows_and_knowledge_of_policies(committed):
    assert len(committed.settings) == 18
    normal = Method("normal", "ipw")
    assert all(len(cell.held) == 1000 for _, cell in committed.of(normal, committed.settings))


def test_effective_sizes_of_the_committed_trials_are_those_of_the_settings(committed):
    """More rows of the same policies allow smaller weights in proportion."""
    for rewards in ("bounded", "unbounded"):
        for place in range(3):
            cells = [
                committed.cells[Method("normal", "ipw"), LogShape(rewards, place, n)]
                for n in (200, 2000, 20000)
            ]
            medians = [float(np.median(cell.effective)) for cell in cells]
            assert medians == sorted(medians)
