import csv
import io
import json
import re

import pytest

from ope_bench.boards.built_in_columns import as_json, select_columns
from ope_bench.boards.leaderboard import boards
from ope_bench.contracts.plugins import STANDARD_ERROR_WITHHELD
from ope_bench.report.boards import render
from ope_bench.report.tables import figure
from ope_bench.statistics.weight_checks import (
    DOUBTFUL_WEIGHTS,
    LEAST_EFFECTIVE,
    RARE_WEIGHTS,
)
from ope_bench.trials.status import Status


@pytest.fixture
def mixed(normal_row, record):
    """A good row, a heavy-tailed one, one that often fails, one that always does."""
    heavy = [*normal_row("heavy_tail", stream=1), record("heavy_tail", 100, 50.0)]
    picky = [
        record("picky", r, 0.1, status=Status.OK if r % 3 else Status.POSITIVITY, fallback=2.0)
        for r in range(100)
    ]
    broken = [record("broken", r, status=Status.CRASH) for r in range(100)]
    timed = [
        record(
            "timed",
            r,
            0.2,
            exclusive=True,
            fit_seconds=0.01,
            estimate_seconds=1e-5,
            standard_error=0.1,
        )
        for r in range(100)
    ]
    return [*normal_row("good"), *heavy, *picky, *broken, *timed]


@pytest.mark.parametrize("by", ["rmse", "positivity", "coverage", "time", "ratio", "balance"])
@pytest.mark.parametrize("form", ["text", "markdown", "latex", "csv"])
def test_every_board_renders_in_every_format(mixed, by, form):
    text = render(boards(mixed, by=by), form)
    assert "\x1b" not in text
    if by not in ("ratio", "balance"):
        assert "timed" in text


@pytest.mark.parametrize("by", ["rmse", "positivity", "coverage", "time"])
@pytest.mark.parametrize("width", [60, 80, 120])
def test_text_fits_the_terminal_and_no_number_is_cut(mixed, by, width):
    lines = render(boards(mixed, by=by), width=width).splitlines()
    assert max(map(len, lines)) <= width
    assert all("…" not in line for line in lines)
    assert any("broken" in line for line in lines) is (by not in ("coverage", "time"))
    assert all(line == line.rstrip() for line in lines)


def test_long_names_are_cut_before_numbers(normal_row):
    records = normal_row("estimator-with-a-name-that-goes-on-and-on-and-on-and-on-for-ever")
    text = render(boards(records), width=80)
    assert "estimator-with-a-na" in text
    assert figure(boards(records)[0].rows[0].rmse.value) in text


def test_names_that_differ_at_their_ends_stay_different_when_cut(normal_row):
    stem = "estimator-with-a-name-that-goes-on-and-on-how="
    records = [*normal_row(stem + "this"), *normal_row(stem + "that", stream=1)]
    text = render(boards(records), width=80)
    assert "…" in text
    assert all(line in text for line in ("how=this", "how=that"))
    assert max(map(len, text.splitlines())) <= 80


def test_text_says_what_cannot_be_read_off(mixed):
    text = render(boards(mixed))
    assert "† heavy-tailed: few data sets determine the RMSE" in text
    assert "failures count with the" in text
    assert "* does not differ significantly from the best score" in text


def test_notes_speak_only_of_what_occurs(normal_row):
    text = render(boards(normal_row()))
    assert "†" not in text
    assert "failures" not in text


def test_a_note_of_the_environments_origin_is_shown(record):
    text = render(boards([record(environment_origin="toys 1 (surrogate)")]))
    assert "surrogate" in text


@pytest.mark.parametrize(("error", "stated"), [(0.05, True), (0.011, False), (0.0, False)])
def test_the_truths_own_error_is_stated_where_it_is_a_fifth_of_the_smallest(record, error, stated):
    rows = [record("best", r, 0.1, truth_expected_se=error) for r in range(5)]
    worse = record("worse", 0, 9.0, truth_expected_se=error)
    text = render(boards([*rows, worse]), width=120)
    note = "truth: an estimate with standard error 0.0500, 0.5 of the smallest RMSE"
    assert (note in " ".join(text.split())) == stated
    assert ("truth: an estimate" in text) == stated


def test_withheld_standard_errors_are_named_at_80_columns(record):
    facts = {STANDARD_ERROR_WITHHELD: "the models disagree"}
    records = [record("shy", r, diagnostics=facts) for r in range(3)]
    records += [record("shy", 3, standard_error=0.1), record("bold", 0, standard_error=0.1)]
    for by in ("rmse", "coverage"):
        text = " ".join(render(boards(records, by=by), width=80).split())
        assert "standard error withheld: shy (3 of 4): the models disagree" in text


def test_colour_is_used_only_where_asked(mixed):
    assert "\x1b[" in render(boards(mixed), color=True)


def test_markdown_tables_have_equally_many_cells_and_bold_for_tied_rows(mixed):
    text = render(boards(mixed), "markdown")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len({line.replace("\\|", "").count("|") for line in rows}) == 1
    assert "**good**" in text
    assert "heavy_tail" in text


def test_markdown_headings_read_well_unrendered(mixed):
    heading = render(boards(mixed), "markdown").splitlines()[0]
    assert heading.startswith("### ")
    assert " | by rmse | " in heading
    assert "\\" not in heading


@pytest.mark.parametrize("form", ["text", "markdown", "latex"])
def test_rows_whose_weight_lies_in_one_sample_are_named(record, form):
    records = [
        record(name, r, 0.1, standard_error=0.1, max_weight_share=share)
        for name, share in (("one-row", 0.9), ("many-rows", 0.05))
        for r in range(10)
    ]
    # Tables for articles and terminals have no coverage unless it is asked for.
    columns = None if form == "markdown" else select_columns(["estimator", "coverage"])
    text = " ".join(render(boards(records), form, columns=columns).split())
    mark = r"\ddag{}" if form == "latex" else "‡"
    words = DOUBTFUL_WEIGHTS.replace("%", r"\%") if form == "latex" else DOUBTFUL_WEIGHTS
    assert f"{mark} one-row: {words}" in text
    assert f"{mark} many" not in text
    assert "‡" not in render(boards(records[10:]), form)


@pytest.mark.parametrize(
    ("form", "by"), [("markdown", "rmse"), ("markdown", "coverage"), ("text", "coverage")]
)
def test_rows_whose_weights_may_be_large_are_named(record, form, by):
    records = [
        record(name, r, 0.1, standard_error=0.1, diagnostics={LEAST_EFFECTIVE: least})
        for name, least in (("large", 0.5), ("moderate", 50.0))
        for r in range(10)
    ]
    found = boards(records, by=by)
    text = " ".join(render(found, form).split())
    assert f"‡ large: {RARE_WEIGHTS}" in text
    assert "‡ moderate" not in text
    document = json.loads(json.dumps(as_json(found[0])))
    assert {row["estimator"]: row["warnings"] for row in document["rows"]} == {
        "large": [RARE_WEIGHTS],
        "moderate": [],
    }


@pytest.mark.parametrize("form", ["text", "markdown", "latex"])
@pytest.mark.parametrize("width", [40, 80, 200])
def test_a_note_on_a_mark_has_a_cell_with_it(mixed, record, form, width):
    doubtful = [
        record(name, r, 0.1 + r, standard_error=0.1, max_weight_share=0.9)
        for name in ("one-row", "other")
        for r in range(4)
    ]
    for records in (mixed, doubtful):
        text = render(boards(records), form, width=width)
        for mark in ("‡", "?", r"\ddag{}"):
            notes = re.findall(rf"^[ %-]*{re.escape(mark)} ", text, re.MULTILINE)
            assert not notes or text.count(mark) > len(notes)


def test_no_row_stands_out_where_none_can_be_told_from_the_first(record):
    def texts(count):
        records = [
            record(name, r, error * (-1) ** r + r / 100)
            for name, error in (("near", 0.1), ("far", 5.0))
            for r in range(count)
        ]
        return [render(boards(records), form) for form in ("text", "markdown")]

    few, bold = texts(4)
    assert re.search(r"^ 1 +near", few, re.MULTILINE)
    assert re.search(r"^2\? +far", few, re.MULTILINE)
    assert "| 2? | far |" in bold
    assert "**" not in bold
    many, bold = texts(40)
    assert re.search(r"^1\* +near", many, re.MULTILINE)
    assert "| 1 | **near** |" in bold


def test_latex_is_escaped(mixed):
    text = render(boards(mixed), "latex")
    assert r"heavy\_tail" in text
    assert r"\textbf{good}" in text
    body = text.split(r"\midrule")[1].split(r"\bottomrule")[0]
    assert all(line.rstrip().endswith(r"\\") for line in body.strip().splitlines())


def test_csv_reads_back_in_full_precision(mixed):
    board = boards(mixed)[0]
    rows = list(csv.DictReader(io.StringIO(render([board], "csv"))))
    assert [row["estimator"] for row in rows] == [row.estimator for row in board.rows]
    for told, row in zip(rows, board.rows, strict=True):
        assert (float(told["rmse"]) if told["rmse"] else None) == row.rmse.value
        assert json.loads(told["status"]) == dict(row.status)


def test_nothing_renders_as_nothing():
    for form in ("text", "markdown", "latex", "csv"):
        assert render([], form).strip() == ""


def test_a_time_board_without_times_says_how_to_get_them(normal_row):
    assert "run --timing" in render(boards(normal_row(), by="time"))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.123456, "0.123"),
        (0.1, "0.100"),
        (123.4, "123"),
        (999.6, "1000"),
        (1462.4, "1462"),
        (9999.6, "1.00e4"),
        (1e-5, "1.00e-5"),
        (-2.5, "-2.50"),
    ],
)
def test_figures_have_three_digits(value, text):
    assert figure(value) == text


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_three_settings_or_more_are_summed_up(normal_row, form):
    records = []
    for n in (10, 20, 30):
        records += [*normal_row("good", n=n), *normal_row("bad", 0.3, stream=1, n=n)]
    text = render(boards(records), form)
    assert "over 3 settings" in text
    assert "1.13 apart" in text
    assert "over" not in render(boards(records)[:2], form)
