"""The board's order, ranges and strata from committed trials once more, by numpy alone."""

from __future__ import annotations

import json
import re
from collections import defaultdict

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from judging.pages.leaderboard import board_settings, in_strata, over_strata
from judging.pages.leaders import leaders
from judging.trials.field import TRACKS
from scipy import stats

from ope_bench.statistics.ranks import rank_ranges
from support.paths import RESULTS

TRACK = TRACKS[1]
COLUMNS = ["environment", "environment_params", "estimator", "replicate", "status", "estimate"]


def committed():
    """Squared errors by stratum, source, setting and estimator; failures at the larger error."""
    errors = {}
    for folder in ("field", "field-signals", "field-real", "field-trials", "field-slow"):
        left = RESULTS / folder / "other-rows.json"
        values = json.loads(left.read_text()) if left.exists() else None
        table = pq.read_table(
            RESULTS / folder / "trials.parquet", columns=[*COLUMNS, "truth_expected", "signal"]
        )
        told = defaultdict(list)
        for row in table.filter(pc.is_valid(table["signal"])).to_pylist():
            told[row["environment_params"]].append(row["signal"])
        signals = {text: float(np.median(its)) for text, its in told.items()}
        for row in table.to_pylist():
            text = row["environment_params"]
            if row["environment"] == "randomized" and values is None:
                continue
            if row["environment"] == "full-feedback":  # a made table
                continue
            if folder == "field-slow" or signals.get(text) is None:
                continue
            truth = row["truth_expected"]
            if values is not None:
                truth = values[text][str(row["replicate"])][0]
            ok = row["status"] == "ok"
            error = row["estimate"] - truth if ok else None
            key = folder, row["environment"], text, signals[text]
            errors.setdefault(key, defaultdict(dict))[row["estimator"]][row["replicate"]] = (
                error, row["status"] == "unavailable",
            )  # fmt: skip
    return errors


def source(environment, text):
    params = json.loads(text)
    for name in ("dataset", "data", "world", "environment"):
        if name in params:
            return f"{environment} {params[name]} {params.get('priors')}"
    return environment


def squares_of(errors, name, reference):
    told = []
    for k, (error, _) in errors[name].items():
        both = [
            one
            for one in (errors["logging-average"][k][0], errors[reference][k][0])
            if one is not None
        ]
        told.append(max(map(abs, both)) if error is None else error)
    return 0.5 * np.log(max(float(np.mean(np.square(told))), 1e-24))


@pytest.fixture(scope="module")
def ratios():
    """By stratum and estimator: log ratio by source."""
    wanted = {one.estimator for one in over_strata(TRACK, board_settings(RESULTS))}
    found = {name: defaultdict(lambda: defaultdict(list)) for name in ("weak", "middle", "strong")}
    for (_, environment, text, signal), errors in committed().items():
        if any(away for _, away in errors[TRACK.probe].values()):
            continue
        if any(error is None for error, _ in errors["logging-average"].values()):
            continue
        if environment == "damaged" and weighted(text):
            continue
        stratum = "weak" if signal < 0.05 else "middle" if signal < 0.25 else "strong"
        base = squares_of(errors, TRACK.reference, TRACK.reference)
        for name in wanted:
            own = squares_of(errors, name, TRACK.reference)
            found[stratum][name][source(environment, text)].append(own - base)
    return {
        stratum: {
            name: {its: float(np.mean(v)) for its, v in by.items()} for name, by in each.items()
        }
        for stratum, each in found.items()
    }


def logs_of(by_source):
    return np.array(list(by_source.values()))


def weighted(text):
    from ope_environments.damaged.faults import drawn_faults

    params = json.loads(text)
    damages = drawn_faults(params["environment"], priors=params.get("priors", 1))
    return "retention" in damages and damages.get("weighted")


def test_strata_have_the_same_settings_and_sources(ratios):
    for stratum, part in in_strata(TRACK, board_settings(RESULTS)).items():
        (count,) = {len(one) for one in ratios[stratum].values()}
        assert count == len({one.source for one in part}), stratum


def test_figures_and_order_are_the_same(ratios):
    board = over_strata(TRACK, board_settings(RESULTS))
    mean = {}
    for one in board:
        parts = [logs_of(ratios[stratum][one.estimator]).mean() for stratum in one.ratios]
        assert np.exp(parts) == pytest.approx(list(one.ratios.values()))
        mean[one.estimator] = np.mean(parts)
        assert one.mean == pytest.approx(np.exp(mean[one.estimator]))
    assert [one.estimator for one in board] == sorted(mean, key=lambda name: (mean[name], name))


def test_ranges_are_those_of_a_bootstrap_within_strata(ratios):
    board = over_strata(TRACK, board_settings(RESULTS))
    names = [one.estimator for one in board]
    pairs = [(i, j) for i in range(len(names)) for j in range(i)]
    rng = np.random.default_rng(7)
    mean, variance, moved, spread = 0.0, 0.0, 0.0, 0.0
    for each in ratios.values():
        logs = [logs_of(each[name]) for name in names]
        gaps = np.array([logs[i] - logs[j] for i, j in pairs])
        sources = gaps.shape[1]
        drawn = rng.choice(sources, (4000, sources))
        counts = np.array([np.bincount(one, minlength=sources) for one in drawn])
        means = counts @ gaps.T / sources
        squares = counts @ (gaps.T - gaps.mean(axis=1)) ** 2 / sources
        mean = mean + gaps.mean(axis=1) / 3
        variance = variance + gaps.var(axis=1, ddof=1) / sources / 9
        moved = moved + (means - gaps.mean(axis=1)) / 3
        left = squares - (means - gaps.mean(axis=1)) ** 2
        spread = spread + left / (sources - 1) / 9
    limit = np.quantile(np.abs(moved / np.sqrt(spread)).max(axis=1), 0.95)
    first, last = np.ones(len(names), int), np.full(len(names), len(names))
    for (i, j), size in zip(pairs, mean / np.sqrt(variance), strict=True):
        worse, better = (i, j) if size > 0 else (j, i)
        if abs(size) > limit:
            first[worse] += 1
            last[better] -= 1
    ours = np.array([[one.rank_low, one.rank_high] for one in board])
    # Another bootstrap has another critical value in its second digit.
    assert np.abs(ours - np.stack([first, last], axis=1)).max() <= 2
    assert np.mean(ours == np.stack([first, last], axis=1)) >= 0.7


def test_the_page_says_how_many_data_sets_a_setting_has():
    page = (RESULTS / "leaderboard.md").read_text(encoding="utf-8")
    told = re.search(r"settings of (\d+)(?: to (\d+))? data sets", page).groups("0")
    sizes = {len(errors[TRACK.reference]) for errors in committed().values()}
    assert sorted({min(sizes), max(sizes)}) == [int(one) for one in told if one != "0"]


def test_ranges_show_no_order_where_there_is_none(ratios):
    rng, shown = np.random.default_rng(3), []
    for each in ratios.values():
        logs = np.array([logs_of(one) for one in each.values()])
        alike = logs - logs.mean(axis=1, keepdims=True)
        for _ in range(30):
            drawn = alike[:, rng.integers(logs.shape[1], size=logs.shape[1])]
            shown.append(rank_ranges(drawn) != [(1, len(logs))] * len(logs))
    # One in twenty is claimed; with errors of the data alone it would be four in ten.
    assert np.mean(shown) <= 0.15


def interval(logs):
    half = stats.t.ppf(0.975, len(logs) - 1) * np.std(logs, ddof=1) / np.sqrt(len(logs))
    return np.exp([np.mean(logs), np.mean(logs) - half, np.mean(logs) + half])


def opened_later():
    """By stratum and estimator: log ratios to `ipws` of the tables opened after predictions."""
    frame = pq.read_table(RESULTS / "predictions" / "opened.parquet").to_pandas()
    found = defaultdict(lambda: defaultdict(list))
    for _, rows in frame.groupby("environment_params"):
        its = {name: own.sort_values("replicate") for name, own in rows.groupby("estimator")}
        fits = its["dr-eb"]["diagnostics"].map(json.loads)
        r2 = np.median([one["reward_r2"] for one in fits])
        average = its["logging-average"]
        truth = average["truth_expected"].to_numpy()
        floor = 0.1 * average["standard_error"].mean()
        root = {}
        for name in ("ipws", "dm", "dr-eb", "dr-os", "sndr"):
            assert set(its[name]["status"]) == {"ok"}
            errors = its[name]["estimate"].to_numpy() - truth
            root[name] = max(np.sqrt(np.mean(errors**2)), floor)
        stratum = "weak" if r2 < 0.05 else "middle" if r2 < 0.25 else "strong"
        for name, error in root.items():
            found[stratum][name].append(np.log(error / root["ipws"]))
    return found


def test_a_sentence_tells_worlds_from_tables_and_what_was_opened_later(ratios):
    figure = r"(\d+\.\d\d) \((\d+\.\d\d) to (\d+\.\d\d)\)"
    opened = opened_later()
    for line in leaders(RESULTS).splitlines():
        stratum, first = re.search(r"\*\*(\w+)\*\*.*; `([\w-]+)` errs", line).groups()
        worlds, tables, later = (
            [float(one) for one in found] for found in re.findall(figure, line)
        )
        # Of those that predictions are about it errs least.
        means = {name: logs_of(its).mean() for name, its in ratios[stratum].items()}
        assert first == min(("dr-eb", "dm", "dr-os", "sndr"), key=means.__getitem__)
        kinds = {True: [], False: []}
        for name, its in ratios[stratum][first].items():
            kinds[name.startswith(("population", "damaged"))].append(its)
        assert line.index("drawn worlds") < line.index("tables and trials") < line.index("later")
        assert worlds == pytest.approx(interval(kinds[True]), abs=0.0051)
        assert tables == pytest.approx(interval(kinds[False]), abs=0.0051)
        (count,) = re.search(r"later: .* on (\d+) tables", line).groups()
        own = opened[stratum][first]
        assert later == pytest.approx(interval(own), abs=0.0051)
        assert int(count) == len(own)
