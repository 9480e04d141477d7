"""What changed on the leaderboard: by hand, paired by source, told by gate and compare."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from ope_bench.boards.tracks import STRATA, Answers, SettingAnswers
from ope_bench.cli.app import invoke
from ope_bench.contracts.view import Access
from ope_bench.gate.session import GateReport
from ope_bench.gate.track_changes import TrackChange, track_changes
from ope_bench.gate.verdict_tables import github_lines, markdown_table
from ope_bench.plugins.spec import PluginSpec, resolve
from ope_bench.store import Store
from ope_bench.trials.record import Trial, TrialRecord
from ope_bench.trials.status import Status
from support.stored_records import begin

PROPENSITIES = "propensities and target policy"
KNOWN = Access.PROPENSITY | Access.TARGET_POLICY
ERRORS = {"logging-average": 4.0, "ipws": 2.0, "ix-ipw": 1.0, "dm": 3.0}


def _side(
    factors: Sequence[Mapping[str, float]], signal: float | None = 0.1
) -> list[SettingAnswers]:
    """A world for each mapping, whose estimators err more by its factors."""
    found = []
    for number, factor in enumerate(factors):
        answers = {
            name: Answers(
                np.array([error, -error]) * factor.get(name, 1.0),
                np.full(2, np.nan),
                np.full(2, np.nan),
                np.zeros(2),
                np.ones(2),
                Access.SAMPLES if name == "logging-average" else KNOWN,
            )
            for name, error in ERRORS.items()
        }
        key = (f"world {number}", "data")
        setting = SettingAnswers(key[0], number, {}, np.zeros(2), answers, signal, key)
        found.append(setting)
    return found


def _of(changes: Sequence[TrackChange], estimator: str, stratum: str = "all") -> TrackChange:
    (found,) = (
        one
        for one in changes
        if (one.track, one.stratum, one.estimator) == (PROPENSITIES, stratum, estimator)
    )
    return found


def test_a_change_is_the_mean_of_paired_logarithms_over_sources_with_students_interval() -> None:
    changes = track_changes(_side([{}, {}, {}]), _side([{"dm": 1.0}, {"dm": 2.0}, {"dm": 4.0}]))
    found = _of(changes, "dm")
    assert (found.settings, found.sources) == (3, 3)
    assert (found.before, found.after) == pytest.approx((1.5, 3.0))
    assert found.change == pytest.approx(2.0)
    half = 4.302653 * math.log(2) / math.sqrt(3)
    assert found.low == pytest.approx(math.exp(math.log(2) - half), rel=1e-6)
    assert found.high == pytest.approx(math.exp(math.log(2) + half), rel=1e-6)
    assert _of(changes, "ix-ipw").change == 1.0
    # What the track divides by is no estimator whose ratio can change.
    assert "ipws" not in {one.estimator for one in changes}


def test_a_worse_reference_moves_all_others_and_a_single_source_has_no_interval() -> None:
    changes = track_changes(_side([{}]), _side([{"ipws": 2.0}]))
    assert _of(changes, "dm").change == pytest.approx(0.5)
    assert (_of(changes, "dm").low, _of(changes, "dm").high) == (None, None)


def test_strata_are_named_and_settings_without_a_partner_are_left_out() -> None:
    before = [*_side([{}, {}], signal=0.01), *_side([{}, {}, {}], signal=0.5)[2:]]
    after = _side([{"dm": 2.0}, {"dm": 2.0}, {"dm": 8.0}], signal=None)
    changes = track_changes(before, [*after, *_side([{}] * 4)[3:]])
    assert _of(changes, "dm", "weak").change == pytest.approx(2.0)
    assert _of(changes, "dm", "strong").change == pytest.approx(8.0)
    assert _of(changes, "dm").settings == 3
    # A baseline knows no signals; its repetition does.
    again = track_changes(after, before)
    assert _of(again, "dm", "weak").change == pytest.approx(0.5)
    assert {one.stratum for one in again} == {"all", "weak", "strong"} <= {"all", *STRATA}


def test_github_and_markdown_say_each_track_and_stratum_and_the_exit_code_stays() -> None:
    changes = track_changes(_side([{}, {}]), _side([{"dm": 2.0}, {"dm": 2.0}]))
    reports = [GateReport(judgements=(), planned=1, outcomes=1, tracks=x) for x in ((), changes)]
    assert reports[0].exit_code() == reports[1].exit_code()
    lines = github_lines(reports[1], "b.json", (0, "")).splitlines()
    said = [line for line in lines if PROPENSITIES in line]
    assert [line.partition("::track ")[2].partition(": ")[0] for line in said] == [
        f"{PROPENSITIES}, signal all",
        f"{PROPENSITIES}, signal middle",
    ]
    assert said[0].startswith("::notice ")
    assert all("dm x2.00 (x2.00 to x2.00)" in line for line in said), said
    assert "| dm |" in markdown_table([], "t", "", changes)


def _stored(path: Path, dm: float) -> None:
    with Store.open(path, write=True) as store:
        run = begin(store)
        for world in (1, 2):
            setting = PluginSpec("environment", "population", "population", {"world": world})
            for name, error in {**ERRORS, "dm": dm}.items():
                record = TrialRecord(
                    Trial(setting, resolve("estimator", name), 0),
                    "c0de",
                    Status.OK,
                    estimate=1.0 + error,
                    truth_expected=1.0,
                    access=("samples",) if name == "logging-average" else KNOWN.words(),
                )
                store.add(record, run)
        store.end_run(run, 0)


def test_compare_names_the_change_of_two_stores(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [tmp_path / "a.sqlite", tmp_path / "b.sqlite"]
    for path, dm in zip(paths, (3.0, 1.5), strict=True):
        _stored(path, dm)
    assert invoke(["compare", *map(str, paths), "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)["tracks"]
    (found,) = (one for one in told if one["estimator"] == "dm" and one["track"] == PROPENSITIES)
    assert (found["stratum"], found["sources"], found["change"]) == ("all", 2, pytest.approx(0.5))
    assert invoke(["compare", *map(str, paths)]) == 0
    assert "x0.500 (x0.500 to x0.500)" in capsys.readouterr().out
