from __future__ import annotations

import base64
import json
import math
import re
import sys
import zlib

import numpy as np
import pytest

from ope_bench.base.errors import UsageError
from ope_bench.boards.built_in_columns import COLUMNS
from ope_bench.outcomes import STATUSES
from ope_bench.report import needs_extra
from ope_bench.report.charts import CHARTS, sweep
from ope_bench.report.content import ReportData
from ope_bench.report.notes import board_notes
from ope_bench.report.page.html import (
    _rounded,
    escaped_json,
    payload,
    render_page,
)
from ope_bench.trials.status import Status

from .conftest import HOSTILE, made, plenty


def embedded(page: str) -> dict:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    return json.loads(found.group(1))


def test_the_page_is_one_file_that_names_no_other(content):
    page = render_page(content)
    head, _, rest = page.partition('<script type="application/json"')
    own = head + rest.rpartition("</script>\n<script>\n")[2]
    assert "http://" not in own
    assert "https://" not in own
    assert len(page) < 3_000_000


def test_embedded_data_cannot_leave_their_element(content):
    page = render_page(content)
    assert HOSTILE not in page
    start = page.index('id="data">') + len('id="data">')
    data = page[start : page.index("</script>", start)]
    assert not set("<>&") & set(data)
    assert HOSTILE in [method["label"] for method in embedded(page)["methods"]]


def test_escaped_json_is_the_same_json():
    value = {"<a>": ["&", "</script>", "\u2028", 'é"']}
    assert json.loads(escaped_json(value)) == value


def test_text_in_a_store_is_not_taken_for_a_part_of_the_template(stored):
    page = render_page(ReportData.read(stored([made("@@DATA@@"), made("@@VEGA@@")])))
    labels = [method["label"] for method in embedded(page)["methods"]]
    assert labels == ["@@DATA@@", "@@VEGA@@"]


def test_the_page_holds_every_trial_with_its_seed_estimate_and_traceback(content):
    data = payload(content)
    unpacked = json.loads(zlib.decompress(base64.b64decode(data["trials"][-1])))
    setting = content.settings[-1]
    for cell, trials in zip(unpacked["cells"], setting.trials, strict=True):
        words = [data["statuses"][int(digit)] for digit in cell["status"]]
        assert words == [STATUSES[number] for number in trials.status]
        for index, key in enumerate(trials.key):
            start = cell["key"][index * cell["digits"] : (index + 1) * cell["digits"]]
            assert key.startswith(start)
            assert unpacked["replicate"][cell["data"][index]] == trials.replicate[index]
            if words[index] == "ok":
                assert cell["estimate"][index] == pytest.approx(trials.estimate[index], rel=1e-7)
            if trials.traceback[index]:
                known = unpacked["texts"][cell["faults"][str(index)][2]]
                assert known == trials.traceback[index]


def test_figures_of_the_page_are_those_of_the_boards(content):
    data = payload(content)
    lines = iter(data["rows"])
    for setting in content.settings:
        for row in setting.board.rows:
            _, _, status, _, *figures = next(lines)
            told = dict(zip(data["figures"], figures, strict=True))
            assert status == dict(row.status)
            for name, value in told.items():
                expected = COLUMNS[name].value(row)
                close = expected and not isinstance(expected, str)
                assert value == (pytest.approx(expected, rel=1e-5) if close else expected)


def test_notes_of_the_page_explain_no_mark_that_it_does_not_have(content):
    def lines(notes):
        return [note for note in notes if note.startswith("? ")]

    assert any(lines(board_notes(setting.board)) for setting in content.settings)
    for setting in payload(content)["settings"]:
        assert not [note for notes in setting["notes"].values() for note in lines(notes)]


def test_a_trial_seen_under_two_truths_is_counted_once(tmp_path):
    from ope_bench.store import Store

    path = tmp_path / "store.sqlite"
    with Store.open(path, write=True) as store:
        for truth in ("empirical", "expected"):
            store.add(made(), store.begin_run(suite=truth, truth=truth))
    assert payload(ReportData.read(path))["status"]["ok"] == 1


@pytest.mark.parametrize(
    "records",
    [
        [],
        [made()],
        [made(replicate=r, error=0.1 * r) for r in range(9)],
        [made(replicate=r, status=Status.CRASH, truth_empirical=None) for r in range(3)],
        [made(status=Status.UNAVAILABLE, error_message="no device")],
        [made(error=0.0), made("dm", error=float("inf"))],
    ],
    ids=["empty", "one trial", "one estimator", "only failures", "unavailable", "degenerate"],
)
def test_odd_stores_give_pages(records, stored):
    page = render_page(ReportData.read(stored(records)))
    counted = embedded(page)["status"]
    assert sum(counted.values()) == len(records)


def test_charts_hold_no_data_and_no_address(content):
    for chart in [*(make() for make in CHARTS.values()), sweep("n", "log10_rmse")]:
        spec = chart.to_dict()
        assert '"url"' not in json.dumps(spec)


def test_without_the_extra_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(UsageError, match=r"ope-bench\[report\]"):
        needs_extra()


def test_a_report_is_the_same_whatever_the_order_of_the_records(stored, tmp_path):
    def of(records):
        told = payload(ReportData.read(stored(records)))
        (tmp_path / "store.sqlite").unlink()
        return [told[name] for name in ("methods", "settings", "rows", "sweeps", "trials")]

    records = plenty()
    assert of(records) == of(records[::-1])


def test_numbers_are_rounded_to_significant_digits_and_are_short():
    values = [1234567.8, 0.00012345678, -0.0, 3.0, 1e15, 1e16, math.nan, -math.inf, None, "1.25"]
    near = [
        "1235000",
        "0.0001235",
        "0",
        "3",
        "1000000000000000.0",
        "1e+16",
        *["None"] * 3,
        "'1.25'",
    ]
    assert [*map(repr, _rounded(values, 4))] == near
    rng = np.random.default_rng(0)
    many = (rng.normal(size=200) * 10.0 ** rng.integers(-300, 300, 200)).tolist()
    for digits in (3, 8):
        assert _rounded(many, digits) == pytest.approx(many, rel=0.51 * 10.0 ** (1 - digits))
