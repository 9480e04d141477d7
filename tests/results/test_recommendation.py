"""The recommended estimator, its interval's constant and cells: by the rule, from trials."""

from __future__ import annotations

import json
import math
import re
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest
from draws import coverage as drawing
from draws.average_errors import standard_error
from judging.advice import recommendation as judged
from judging.advice.recommendation import BEST_OF, COMBINED, SINGLE, Case, Logs

import ope_bench
from ope_bench.logs.problem import effective_rewarded_rows
from support.paths import RESULTS
from support.small_logs import discrete, log_of

SHIPPED = Path(ope_bench.__file__).parent / "logs" / "recommendation.json"


def case(number: int, signal: float, **errors: float) -> Case:
    """A world in which estimators err so much; those that are not named err 1, as `ipws`."""
    known = dict.fromkeys(("ipws", *SINGLE, *COMBINED), 1.0)
    known |= {name.replace("_", "-"): error for name, error in errors.items()}
    values = {name: np.array([error, -error]) for name, error in known.items()}
    return Case("world", f"world {number}", number, signal, np.zeros(2), values, 0.01)


SIGNALS = (0.0, 0.1, 0.5)


def test_the_least_mean_of_the_strata_is_chosen_whatever_their_sizes():
    many = [case(number, 0.0, dm=0.5, tmle=0.8) for number in range(9)]
    rest = [case(10, 0.1, dm=1.2, tmle=0.8), case(11, 0.5, dm=1.2, tmle=0.8)]
    assert judged.chosen([*many, *rest]) == "tmle"
    assert judged.criterion([*many, *rest], "tmle")[0] == pytest.approx(math.log(0.8))
    worst = judged.criterion([*many, *rest], "dm")[1]
    assert worst == pytest.approx(math.log(1.2))


def test_of_equal_ones_the_better_worst_stratum_decides():
    some = [
        case(1, 0.0, dm=0.70, sndr=0.80),
        case(2, 0.1, dm=0.80, sndr=0.80),
        case(3, 0.5, dm=0.91, sndr=0.80),
    ]
    apart = judged.criterion(some, "sndr")[0] - judged.criterion(some, "dm")[0]
    assert 0 < apart < 0.01
    assert judged.chosen(some) == "sndr"


@pytest.mark.parametrize(("error", "taken"), [(0.78, False), (0.77, True)])
def test_a_combination_must_be_better_by_more_than_its_margin(error, taken):
    name = "median of all six"
    some = [case(k, signal, dm=0.8) for k, signal in enumerate(SIGNALS)]
    some = [replace(one, values=one.values | {name: np.array([error, -error])}) for one in some]
    assert (judged.chosen(some) == name) == taken


def test_a_guarded_value_is_the_nearest_within_standard_errors_of_ipws():
    row = {"status": "ok", "truth_expected": 0.5, "standard_error": 0.02, "diagnostics": "{}"}
    values = {"logging-average": 0.4, "ipws": 0.52, "dr-eb": 0.5, "dr-os": 0.55}
    by_name = {name: {0: row | {"estimate": value}} for name, value in values.items()}
    found = judged._case("world", {"world": 1}, by_name, None, {"0": 0.02}).values
    assert found["guard of 1"] == pytest.approx([0.54])
    assert found["guard of 1.96"] == pytest.approx([0.55])
    assert "median of all six" not in found
    by_name["ipws"] = {0: row | {"estimate": 0.52, "standard_error": None}}
    found = judged._case("world", {"world": 1}, by_name, None, {"0": 0.02}).values
    assert found["guard of 1"] == pytest.approx([0.55])


def test_the_page_has_the_worlds_of_the_guard_with_their_limits():
    text = judged._guard(RESULTS, *judged.choosing(judged.cases(RESULTS)))
    rows = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith("|")][2:]
    told = {(row[0].strip(), row[1].strip()): [one.strip() for one in row[2:]] for row in rows}
    fresh = judged.cases(RESULTS, ("choice-confirm",))
    ratios = [one.ratio("dr-os") for one in fresh]
    over = sum(ratio > math.log(2) for ratio in ratios)
    mine = told["worlds 201 to 500", "`dr-os`"]
    assert mine[2:4] == [f"{over} of {len(fresh)}", str(sum(one > math.log(5) for one in ratios))]
    assert float(told["worlds 201 to 500", "guard of 1"][1]) > 1.2 > float(mine[1])
    # The rule takes the largest guard with at most 2 % over twice among those that choose.
    chose = [one for key in ("chose", "worlds 101 to 200") for one in [told[key, "guard of 1.96"]]]
    count, total = (sum(int(one[2].split(" of ")[k]) for one in chose) for k in (0, 1))
    assert count / total > 0.02


def test_odd_worlds_and_every_second_source_choose():
    tables = [
        replace(case(0, 0.0), kind="table", source=f"table {name}", number=None) for name in "cab"
    ]
    odd, even = judged.choosing([case(1, 0.0), case(2, 0.0), *tables])
    assert [one.source for one in odd] == ["world 1", "table c", "table a"]
    assert [one.source for one in even] == ["world 2", "table b"]


def test_errors_have_a_floor_and_failures_count_with_the_worse_of_two():
    assert case(1, 0.0, dm=0.001).log_error("dm") == pytest.approx(math.log(0.01))
    row = {"status": "ok", "truth_expected": 0.5, "standard_error": 0.02, "diagnostics": "{}"}
    by_name = {
        name: {0: row | {"estimate": value}}
        for name, value in {"logging-average": 0.4, "ipws": 0.52, "dr-eb": 0.5}.items()
    }
    for name in {"dm", "dr-os", "sndr", "tmle", "dr-eb[toward=tmle]"}:
        by_name[name] = {0: row | {"estimate": None, "status": "timeout"}}
    found = judged._case("world", {"world": 1}, by_name, None, {"0": 0.02})
    assert found.values["tmle"].tolist() == [0.4]
    assert found.floor == pytest.approx(0.002)


def test_the_error_of_the_logged_mean_counts_units_once():
    reward, unit = np.array([1.0, 0, 0, 1, 1, 0]), np.array([7, 7, 2, 2, 7, 5])
    assert standard_error(reward, None) == pytest.approx(0.5 / math.sqrt(6))
    # Sums of r - 1/2 by unit: 0 in rows 2 and 3, 1/2 in rows 0, 1 and 4, -1/2 in row 5.
    assert standard_error(reward, unit) == pytest.approx(math.sqrt(0.25 + 0.25) / 6)
    assert len(judged.cases(RESULTS)) > 150
    assert all(0 < one.floor < 0.1 * abs(one.truth).max() + 1 for one in judged.cases(RESULTS))


def logs(odd: bool, rewarded: float, error: float, count: int = 40) -> Logs:
    """Logs whose estimates miss by one; s is error, D is 2."""
    one = np.ones(count)
    return Logs(
        odd=np.full(count, odd), world=np.arange(count), rewarded=rewarded * one,
        effective=150 * one, truth=0 * one, center=one, error=error * one, apart=2 * one,
        likelihood=np.array([-3 * one, 0.5 * one]), ipws=3 * one, normal=2 * one,
    )  # fmt: skip


def test_half_the_width_is_that_of_the_errors_and_of_the_range():
    found = logs(True, 60, 0.1)
    np.testing.assert_allclose(found.half(0.6), math.hypot(1.96 * 0.1, 0.6 * 2))
    assert found.held(0.6).all()
    assert not found.held(0.4).any()
    assert judged.constant_of(found) == 0.6
    few = logs(True, 19.9, 0.0)
    np.testing.assert_allclose(few.width(0.6), 3.5)
    assert few.held(0.0).all()


def test_cells_count_even_worlds_alone_and_fail_by_wilsons_upper_end():
    assert all(cell["logs"] == 0 for cell in judged.cells_of(logs(True, 60, 0.1), 0.6))
    cells = {
        (cell["rewarded"], cell["effective"]): cell
        for cell in judged.cells_of(logs(False, 60, 0.1), 0.4)
    }
    cell = cells.pop((50.0, 100.0))
    assert (cell["logs"], cell["held"], cell["states"], cell["worlds"]) == (40, 0.0, False, 40)
    assert not any(one["logs"] for one in cells.values())
    (whole,) = (one for one in judged.cells_of(logs(False, 60, 0.1), 0.6) if one["logs"])
    assert (whole["held"], whole["states"]) == (1.0, True)


def test_widths_are_medians_over_logs_and_the_widest_cell_is_named():
    parts = [logs(False, 60, 0.1, 60), logs(False, 300, 1.8, 40), logs(False, 10, 0.1)]
    drawn = Logs(**{
        one.name: np.concatenate([getattr(part, one.name) for part in parts], axis=-1)
        for one in fields(Logs)
    })  # fmt: skip
    told = judged._kept(judged.cells_of(drawn, 0.6), drawn, 0.6).splitlines()
    # Half widths hypot(.196, 1.2) and hypot(3.528, 1.2) over 2; the first group has most logs.
    assert told[3].startswith("- holds: ")
    assert re.findall(r"\d\.\d+", told[3])[::2] == ["0.61", "1.86"]
    # `ipws` is 3 from the truth with a half width of 2.
    assert told[3].endswith("0.000")
    assert told[4].startswith("- holds: ")
    assert "1.00 (2)" in told[4]


def test_the_shipped_file_is_what_the_committed_trials_say():
    shipped = json.loads(SHIPPED.read_text(encoding="utf-8"))
    known = shipped["known"]
    odd, even = judged.choosing(judged.cases(RESULTS))
    center = judged.chosen(odd)
    drawn = judged.logs_of(RESULTS, center)
    constant = judged.constant_of(drawn)
    assert (known["center"], known["constant"], known["worlds"]) == (center, constant, len(even))
    cells = judged.cells_of(drawn, constant)
    assert known["cells"] == [{name: one[name] for name in judged.SHIPPED} for one in cells]
    assert len(drawn.truth) > 1000
    assert set(known["panel"]) == {*BEST_OF[:2], "dr-os", "dm[cross_fit=5]"}
    unknown = judged.logs_of(RESULTS, center, "estimated.parquet")
    cells = judged.cells_of(unknown, constant, **judged.ESTIMATED)
    assert [one["held"] for one in shipped["estimated"]["cells"]] == [one["held"] for one in cells]
    assert sum(one["logs"] for one in cells) == len(unknown.truth) > 100
    assert not unknown.odd.any()
    assert shipped["samples"]["center"] == judged.samples_choice(RESULTS)[0]
    assert shipped["withheld"] == judged.withheld(RESULTS)


def test_intervals_are_withheld_by_wilsons_upper_end_on_clean_worlds_alone(monkeypatch):
    def setting(held: int, real: bool = False, **facts: object) -> SimpleNamespace:
        facts = {"world_ess_fraction": 0.1, "world_rows": 1000} | facts
        of = SimpleNamespace(held=np.r_[np.ones(held), np.zeros(100 - held), np.nan])
        return SimpleNamespace(real=real, facts=facts, answers={"one": of})

    def share(*settings: SimpleNamespace) -> dict[str, float]:
        monkeypatch.setattr(judged, "settings_of", lambda _: settings)
        track = SimpleNamespace(holds=lambda _: True)
        monkeypatch.setattr(judged, "TRACKS", (track, track))
        return judged.withheld(RESULTS)

    # Of 100 logs Wilson's upper end is .850 (a little less) at 78 and .858 at 79.
    assert share(setting(78)) == {"one": 0.78}
    assert share(setting(79)) == {}
    assert share(setting(50), setting(100)) == {"one": 0.75}
    for one in (
        setting(0, real=True), setting(0, damages=["users"]), setting(0, world_ess_fraction=0.02)
    ):  # fmt: skip
        assert share(one, setting(100)) == {}


@pytest.mark.parametrize(("file", "size"), [("logs.parquet", 250), ("estimated.parquet", 1200)])
def test_committed_logs_are_what_the_worlds_give(file, size):
    rows = pq.read_table(RESULTS / "coverage" / file).to_pylist()
    small = [row for row in rows if row["rows"] == size and row.get("failed") is None]
    for row in (small[0], small[-1]):
        again = drawing.drawn(row["world"], row["rows"], row["replicate"])
        assert again.keys() <= row.keys()
        for name, value in again.items():
            known = None if value is None else pytest.approx(value, rel=1e-6, abs=1e-9)
            assert row[name] == known, name


def test_effective_rewarded_rows_of_drawn_logs_are_those_of_a_users_log():
    given = discrete(200)
    weight = given.target_policy.probability(given.context, given.action) / given.propensity
    reward = np.round(1 / (1 + np.exp(-given.reward)))
    log = log_of(replace(given, reward=reward))
    expected = effective_rewarded_rows(log, "target")
    assert drawing.effective_rewarded(weight, reward) == pytest.approx(expected)


def test_logs_are_drawn_again_where_their_cells_lack_logs(monkeypatch, tmp_path):
    """By where the logs lie: worlds of filled cells, and those that choose, are left alone."""
    monkeypatch.setattr(drawing, "FOLDER", tmp_path)
    monkeypatch.setattr(drawing, "LOGS", 5)
    (tmp_path / "plan.json").write_text("[[2, 250], [4, 250], [3, 250]]")
    place = {2: (5.0, 50.0), 4: (5.0, 200.0), 3: (5.0, 50.0)}
    rows: list[dict[str, float]] = []
    for world, size, replicate in drawing.missing(rows):
        rewarded, effective = place[world]
        row = {"world": world, "rows": size, "replicate": replicate}
        rows.append(row | {"rewarded": rewarded, "effective": effective})
    counts = {world: sum(row["world"] == world for row in rows) for world in place}
    assert counts == {2: 5, 4: 5, 3: 3}
    assert len({(row["world"], row["replicate"]) for row in rows}) == 13
    assert list(drawing.missing(rows)) == []
