"""The leaderboard by track: its rule by hand, on invented trials, and what moves nothing."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ope_bench.api import Results
from ope_bench.base.errors import UsageError
from ope_bench.boards import tracks
from ope_bench.boards.tracks import (
    STRATA,
    SettingAnswers,
    TrackBoard,
    settings_of,
    settings_of_rows,
    track_boards,
    tracks_document,
)
from ope_bench.cli.app import invoke
from ope_bench.cli.stored_boards import StorePart
from ope_bench.contracts.view import Access
from ope_bench.outcomes import Outcomes
from ope_bench.plugins.spec import PluginSpec, resolve
from ope_bench.report.content import ReportData
from ope_bench.report.page.html import payload
from ope_bench.statistics.ranks import mean_interval, rank_ranges
from ope_bench.store import Store
from ope_bench.trials.record import Trial, TrialRecord
from ope_bench.trials.status import Status
from support.paths import RESULTS
from support.stored_records import begin

SCALES = {"logging-average": 4.0, "ipws": 1.0, "ix-ipw": 2.0, "dr": 0.5, "dm": 3.0}
ACCESS = {
    **dict.fromkeys(("ipws", "ix-ipw"), ("propensity", "target_policy")),
    "dr": ("logging_policy", "propensity", "target_policy"),
}
PROPENSITIES = "propensities and target policy"


def _world(number: int) -> PluginSpec:
    return PluginSpec("environment", "population", "population", {"world": number}, version=2)


def _trials(
    scales: Mapping[str, float], number: int, *, signal: float | None = None, **given: Status
) -> list[TrialRecord]:
    """Two data sets, on which each estimator errs its scale, up and down."""
    facts = {} if signal is None else {"reward_r2": signal}
    found = []
    for name, scale in scales.items():
        spec = resolve("estimator", name)
        for replicate, sign in enumerate((1.0, -1.0)):
            status = given.get(name.replace("-", "_"), Status.OK)
            found.append(
                TrialRecord(
                    Trial(_world(number), spec, replicate),
                    "c0de",
                    status,
                    estimate=1.0 + sign * scale if status is Status.OK else None,
                    truth_expected=1.0,
                    access=ACCESS.get(name, ("samples",)),
                    diagnostics=facts if name == "dm" else {},
                )
            )
    return found


def _settings(*parts: list[TrialRecord]) -> list[SettingAnswers]:
    return settings_of([Outcomes.by_setting(records) for records in parts])


def _rows(settings: list[SettingAnswers], stratum: str = "all") -> dict[str, tracks.Line]:
    (board,) = (
        one
        for one in track_boards(settings)
        if (one.track, one.stratum) == (PROPENSITIES, stratum)
    )
    return {row.estimator: row for row in board.rows}


def test_a_figure_is_the_geometric_mean_over_sources_of_errors_over_the_references() -> None:
    records = _trials(SCALES, 1) + _trials({**SCALES, "dm": 12.0}, 2)
    rows = _rows(_settings(records))
    logs = np.log([3.0, 12.0])
    assert rows["dm"].ratio == pytest.approx(math.exp(logs.mean()))
    half = 12.706205 * logs.std(ddof=1) / math.sqrt(2)
    assert rows["dm"].high == pytest.approx(math.exp(logs.mean() + half), rel=1e-6)
    assert (rows["ipws"].ratio, rows["ipws"].near) == (1.0, 0.0)
    assert rows["dm"].settings == 2
    # What needs the logging policy enters where that is granted alone.
    assert "dr" not in rows


@pytest.mark.parametrize("average", [4.0, 0.25])
def test_a_missing_answer_errs_as_the_worse_of_average_and_reference(average: float) -> None:
    scales = {**SCALES, "logging-average": average}
    records = _trials(scales, 1, dm=Status.TIMEOUT) + _trials(scales, 2)
    rows = _rows(_settings(records))
    assert rows["dm"].ratio == pytest.approx(math.sqrt(max(average, 1.0) * 3.0))
    assert rows["dm"].failures == 0.5


def test_a_setting_counts_where_the_probe_is_available_and_the_average_has_all_answers() -> None:
    records = _trials(SCALES, 1) + _trials(SCALES, 2, ix_ipw=Status.UNAVAILABLE)
    records += _trials(SCALES, 3, logging_average=Status.ERROR) + _trials(SCALES, 4)
    settings = _settings(records)
    assert [one.source for one in settings] == [f"population {k}" for k in (1, 2, 4)]
    assert _rows(settings)["ipws"].settings == 2


def test_without_its_probe_a_setting_counts_where_those_that_need_all_are_available() -> None:
    others = {name: scale for name, scale in SCALES.items() if name != "ix-ipw"}
    none = {"ipws": Status.UNAVAILABLE}
    records = _trials(others, 1) + _trials(others, 2, **none) + _trials(others, 3)
    known = [
        next(t for t in tracks.rule().tracks if t.name == PROPENSITIES).holds(one)
        for one in _settings(records)
    ]
    assert known == [True, False, True]
    # `dm` declares samples alone here, and says nothing of what else is known.
    assert all(one.answers["dm"].available for one in _settings(records))


def test_settings_of_a_source_are_averaged_first() -> None:
    one, two, three = _settings(
        [x for k, dm in enumerate((2.0, 8.0, 1.0), 1) for x in _trials({**SCALES, "dm": dm}, k)]
    )
    rows = _rows([one, replace(two, source=one.source), three])
    assert rows["dm"].ratio == pytest.approx(math.exp((math.log(4.0) + 0.0) / 2))


def test_an_estimator_of_another_part_stands_beside_the_trials_of_the_first() -> None:
    own, others = dict(SCALES), dict(SCALES)
    del others["dm"]
    records = [one for k in (1, 2, 3) for one in _trials(others, k)]
    mine = [one for k in (1, 2) for one in _trials({"dm": own["dm"]}, k)]
    for parts in ((mine, records), (records, mine)):
        line = _rows(_settings(*parts))["dm"]
        assert (line.settings, line.rank, line.rank_low) == (2, None, None)
        assert line.ratio == pytest.approx(3.0)
    # Of two trials on the same data the first counts; a part without all data sets does not.
    again = [one for k in (1, 2, 3) for one in _trials({"ipws": 9.0}, k)]
    assert _settings(again, records)[0].log_rmse("ipws") == pytest.approx(math.log(9.0))
    assert "dm" not in _rows(_settings(mine[::2], records))


def test_rows_in_pieces_give_the_same_boards() -> None:
    """As those of several numbers of threads, or of several truths, which a report has apart."""
    records = [one for k in (1, 2) for one in _trials(SCALES, k, signal=0.1)]
    rows = [[*one.newest().by_row()] for one in Outcomes.by_setting(records)]
    pieces = [[row.take(slice(k, k + 1)) for row in its for k in (1, 0)] for its in rows]
    made, expected = (track_boards(one) for one in (settings_of_rows(pieces), _settings(records)))
    assert tracks_document(made) == tracks_document(expected)
    assert expected[0].rows


def test_a_report_has_the_boards_of_the_command(tmp_path: Path) -> None:
    path = tmp_path / "trials.sqlite"
    signals = {1: 0.01, 2: 0.1, 3: 0.5}
    with Store.open(path, write=True) as store:
        for suite, truth, numbers in (("one", "expected", (1, 2)), ("two", "empirical", (2, 3))):
            run = begin(store, suite=suite, truth=truth)
            for number in numbers:
                for one in _trials(SCALES, number, signal=signals[number]):
                    store.add(replace(one, truth_empirical=1.0, logging_average=0.5), run)
    groups = {one["suite"]: one for one in payload(ReportData.read(path))["groups"]}
    boards = StorePart(path).boards("track")
    told = groups[""]["tracks"]
    assert [one["title"] for one in told] == [board.title for board in boards]
    assert {board.stratum for board in boards} == {"all", *STRATA}
    for table, board in zip(told, boards, strict=True):
        keys = [column["key"] for column in table["columns"]]
        assert keys == list(TrackBoard.layout)
        for line, row in zip(table["rows"], board.rows, strict=True):
            shown = dict(zip(keys, line, strict=True))
            assert (shown["estimator"], shown["rank_high"]) == (row.estimator, row.rank_high)
            assert shown["ratio"] == pytest.approx(row.ratio, rel=1e-5)
            # An end that is infinite is unknown to JSON.
            ends = [math.inf if end is None else end for end in shown["interval"]]
            assert ends == pytest.approx([row.low, row.high], rel=1e-5)
    # Of a suite, its settings.
    counts = {suite: one["tracks"][0]["title"].split(" | ")[1] for suite, one in groups.items()}
    assert counts == {
        "": "3 settings of 3 sources",
        "one": "2 settings of 2 sources",
        "two": "2 settings of 2 sources",
    }


def test_strata_go_by_the_median_signal_of_the_data_sets() -> None:
    signals = {1: 0.01, 2: 0.05, 3: 0.24, 4: 0.25, 5: None}
    records = [one for k, signal in signals.items() for one in _trials(SCALES, k, signal=signal)]
    foreign = [
        replace(one, trial=replace(one.trial, estimator=replace(spec, origin="acme 0.1")))
        for one in records
        for spec in (one.trial.estimator,)
    ]
    assert [one.stratum for one in _settings(foreign)] == [None] * 5
    settings = _settings(records)
    assert [one.stratum for one in settings] == ["weak", "middle", "middle", "strong", None]
    assert [_rows(settings, name)["dm"].settings for name in STRATA] == [1, 2, 1]


def test_the_rule_is_that_of_submissions_and_its_estimators_are_installed() -> None:
    import yaml

    told = yaml.safe_load((RESULTS / "submissions" / "rounds.yaml").read_text(encoding="utf-8"))
    assert told["fallback"] == tracks.rule().fallback
    assert [
        (one["name"], tracks.access_from(one["granted"]), one["reference"], one["probe"])
        for one in told["tracks"]
    ] == [(one.name, one.granted, one.reference, one.probe) for one in tracks.rule().tracks]
    for track in tracks.rule().tracks:
        for name in (track.reference, track.probe, *track.panel):
            assert resolve("estimator", name).id == name


def test_ranges_of_ranks_hold_all_at_once_and_know_rows_that_never_differ() -> None:
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((3, 200))
    values = noise + np.array([[0.0], [0.05], [3.0]])
    assert rank_ranges(values) == [(1, 2), (1, 2), (3, 3)]
    assert rank_ranges(np.vstack([values, values[2]])) == [(1, 2), (1, 2), (3, 4), (3, 4)]
    assert rank_ranges(values[:, :1]) == [(1, 3)] * 3
    # No order in truth: every range holds every rank in about 95 % of draws.
    whole = [rank_ranges(rng.standard_normal((4, 30))) == [(1, 4)] * 4 for _ in range(40)]
    assert np.mean(whole) >= 0.85
    # Nor where a few columns carry the mean: errors of the data alone would hold in a third.
    errors = rng.lognormal(sigma=1.5, size=(40, 6, 40))
    errors[:, 0] = np.exp(1.5**2 / 2)
    assert np.mean([rank_ranges(one) == [(1, 6)] * 6 for one in errors]) >= 0.75
    # A near copy of a row has no order beside it, and takes none from others.
    copy = values[2] + 1e-3 * (np.arange(200) == 7)
    assert rank_ranges(np.vstack([values, copy])) == [(1, 2), (1, 2), (3, 4), (3, 4)]
    assert mean_interval(np.array([1.0]))[1:] == (-np.inf, np.inf)


def test_ranges_over_strata_weigh_them_equally_and_know_the_spread_of_each() -> None:
    rng = np.random.default_rng(4)
    many, few = rng.standard_normal((2, 2, 400))
    few = few[:, :40]
    gap = np.array([[0.0], [1.0]])
    # The large stratum has an order, the small one its reverse: their mean has none.
    assert rank_ranges(many + gap) == [(1, 1), (2, 2)]
    assert rank_ranges(many + gap, few - gap) == [(1, 2), (1, 2)]
    assert rank_ranges(np.hstack([many + gap, few - gap])) == [(1, 1), (2, 2)]
    # The level of a stratum is no error, and what one stratum does not know, the mean does not.
    assert rank_ranges(many + gap, few + 50 + gap) == [(1, 1), (2, 2)]
    assert rank_ranges(many + gap, 20 * few + gap) == [(1, 2), (1, 2)]
    assert rank_ranges(many + gap, few[:, :1] + gap) == [(1, 2), (1, 2)]


@pytest.mark.parametrize(
    ("errors", "expected"), [(1.8, [(1, 2), (1, 2)]), (2.15, [(1, 1), (2, 2)])]
)
def test_two_rows_are_apart_from_the_normal_quantile_of_95_percent_on(
    errors: float, expected: list[tuple[int, int]]
) -> None:
    noise = np.random.default_rng(1).standard_normal(400)
    noise = (noise - noise.mean()) / noise.std(ddof=1)
    assert rank_ranges(np.stack([np.zeros(400), noise + errors / 20])) == expected


def test_an_estimator_is_near_the_panels_best_up_to_a_factor() -> None:
    scales = {**SCALES, "dm": 1.2, "dr": 1.0}
    records = _trials(scales, 1) + _trials({**scales, "dm": 1.3}, 2) + _trials(scales, 3)
    assert _rows(_settings(records))["ipws"].near == 1.0
    assert _rows(_settings(records))["dm"].near == pytest.approx(2 / 3)


def test_the_command_prints_the_boards_of_store_and_exports(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = [one for k in (1, 2, 3) for one in _trials(SCALES, k)]
    paths = {}
    for name, kept in (("mine", ("dm",)), ("others", [x for x in SCALES if x != "dm"])):
        paths[name] = str(tmp_path / f"{name}.sqlite")
        with Store.open(paths[name], write=True) as store:
            run = begin(store, truth="expected")
            for one in records:
                if one.trial.estimator.id in kept:
                    store.add(one, run)
    export = str(tmp_path / "others.parquet")
    assert invoke(["export", "--to", export, "--store", paths["others"]]) == 0
    capsys.readouterr()
    command = ["leaderboard", "--by", "track", "--store", paths["mine"], "--with", export]
    assert invoke([*command, "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["track"] for one in told["tracks"]] == [one.name for one in tracks.rule().tracks]
    (track,) = (one for one in told["tracks"] if one["track"] == PROPENSITIES)
    assert track["reference"] == "ipws"
    assert [one["stratum"] for one in track["strata"]] == ["all", *STRATA]
    lines = {row["estimator"]: row for row in track["strata"][0]["rows"]}
    assert lines["dm"]["ratio"] == pytest.approx(3.0)
    assert {"ratio", "low", "high", "rank_low", "rank_high"} <= lines["dm"].keys()
    for form in ("text", "markdown", "csv", "latex"):
        assert invoke([*command, "--format", form]) == 0
        assert "dm" in capsys.readouterr().out
    assert invoke([*command, "--columns", "estimator,ratio", "--format", "csv"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "estimator,ratio"
    assert invoke(["leaderboard", "--store", paths["mine"], "--with", export]) == 2
    assert "--by track" in capsys.readouterr().err
    assert invoke([*command[:-1], "none.parquet"]) == 2


def test_results_show_their_tracks() -> None:
    results = Results(one for k in (1, 2) for one in _trials(SCALES, k))
    shown = results.tracks()
    assert PROPENSITIES in repr(shown)
    assert "<table" in shown._repr_html_()
    assert shown.as_json()["tracks"][1]["strata"][0]["settings"] == 2
    few = results.tracks(columns=["estimator", "ratio"])
    assert "95 %" not in repr(few)
    pd = pytest.importorskip("pandas")
    frame = few.to_pandas()
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.columns) == ["estimator", "ratio"]
    with pytest.raises(UsageError, match="ratoi"):
        results.tracks(columns=["ratoi"])
    assert "no setting" in repr(Results(_trials({"dm": 1.0}, 1)).tracks())


def test_the_results_page_has_the_boards_of_the_product() -> None:
    from judging.trials.field import TRACKS
    from judging.trials.field import settings_of as of_results

    (export,) = (RESULTS / "field-real" / "trials.parquet",)
    with Store.open(export) as store:
        every = settings_of([store.outcomes()])
    # The page leaves out the table that is made: four settings.
    ours = [one for one in every if "full-feedback" not in one.source]
    assert len(ours) == len(every) - 4
    theirs = of_results(RESULTS, ("field-real",))
    for track in TRACKS:
        boards = [
            {x.estimator: x for x in tracks.board_of(track, some)} for some in (ours, theirs)
        ]
        assert boards[0].keys() == boards[1].keys()
        for name, line in boards[0].items():
            one, other = (
                {key: value for key, value in vars(x).items() if not isinstance(value, str | None)}
                for x in (line, boards[1][name])
            )
            assert one == pytest.approx(other, rel=1e-12), name
    assert not ours[0].answers["ipws"].needs & ~Access.TARGET_POLICY & ~Access.PROPENSITY
