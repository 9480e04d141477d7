from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from html import unescape

import pytest

from ope_bench.base.files import file_identity
from ope_bench.report.content import ReportData
from ope_bench.report.figure_layout import CAPTIONS
from ope_bench.report.figures import FORMATS, compact_svg, figures, write_figures
from ope_bench.trials.status import Status

from .conftest import HOSTILE, made


@pytest.fixture
def every_format():
    """Write PNG and PDF as well."""


@pytest.fixture(autouse=True)
def _svg_alone(request, monkeypatch):
    """Leave files of other formats empty: a picture of points takes longer than all else."""
    if "every_format" not in request.fixturenames:
        for function in ("svg_to_png", "svg_to_pdf"):
            monkeypatch.setattr(f"vl_convert.{function}", lambda svg, **how: b"")


@pytest.fixture
def small(stored):
    names = ("ipw", "dm", HOSTILE)
    return ReportData.read(
        stored(
            [
                made(name, r, 0.1 * (place + 1) * (-1) ** r + 0.01 * r, n=n)
                for n in (10, 100)
                for place, name in enumerate(names)
                for r in range(9)
            ]
        )
    )


@pytest.fixture
def named_marks(monkeypatch):
    """Figures as Vega draws them, with the names of their marks."""
    monkeypatch.setattr("ope_bench.report.figures.compact_svg", lambda svg, _: svg)


def test_a_compact_figure_keeps_its_words_and_its_places():
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" width="9"><g class="m" role="x" aria-label="a">'
        '<path d="M1.23456,-0.5004L10,2" stroke="#123456"/><path d="" display="none"/>'
        "<text>0.12345</text></g></svg>"
    )
    assert compact_svg(svg, "a < b") == (
        '<svg xmlns="http://www.w3.org/2000/svg" width="9"><desc>a &lt; b</desc><g>'
        '<path d="M1.23,-0.5L10,2" stroke="#123456" /><text>0.12345</text></g></svg>'
    )


@pytest.mark.usefixtures("every_format")
def test_every_chart_comes_in_every_format(small, tmp_path):
    drawn = write_figures(small, tmp_path / "figures")
    written = drawn.paths
    assert drawn.left_out is None
    names = {path.stem.partition("-")[0] for path in written}
    # No ranks: of three estimators in two settings none differ significantly.
    assert names == {"sweep", "positivity", "intervals", "errors", "cdf"}
    assert {path.suffix[1:] for path in written} == {*FORMATS, "txt"}
    begins = {".png": b"\x89PNG", ".pdf": b"%PDF", ".svg": b"<svg", ".txt": b"toy"}
    for path in written:
        assert path.with_suffix(".txt").read_text().strip() in unescape(
            path.with_suffix(".svg").read_text()
        )
        assert path.read_bytes().startswith(begins[path.suffix])
    (sweep,) = [path for path in written if path.name.startswith("sweep-rmse")][:1]
    text = "".join(ET.parse(sweep.with_suffix(".svg")).getroot().itertext())
    assert "number of actions" in text
    assert HOSTILE in text
    # A column of a paper is 3.5 inches at most.
    assert float(ET.parse(sweep.with_suffix(".svg")).getroot().get("width")) <= 260


def test_figures_replace_older_ones_in_one_step(small, tmp_path):
    folder = tmp_path / "figures"
    paths = write_figures(small, folder, kinds=["sweep"]).paths
    before = {path: file_identity(path) for path in paths}
    assert write_figures(small, folder, kinds=["sweep"]).paths == paths
    assert not [path for path in paths if file_identity(path) == before[path]]
    assert set(folder.iterdir()) == set(paths), "no temporary file is left"


@pytest.mark.usefixtures("named_marks")
def test_coverage_stands_against_width_with_a_line_at_what_is_claimed(stored, tmp_path):
    records = [
        made(name, r, 0.1 * (-1) ** r, n=n, standard_error=size)
        for n in (10, 100)
        for name, size in (("ipw", 0.2), ("dr", 0.01), ("silent", None))
        for r in range(9)
    ]
    drawn = write_figures(ReportData.read(stored(records)), tmp_path, kinds=["coverage"])
    (path,) = [one for one in drawn.paths if one.suffix == ".svg"]
    assert path.stem == "coverage-toy"
    text = path.read_text()
    # Two estimators in two settings; the third has no interval, and no place in the legend.
    assert len(re.findall(r'<path aria-label="[^"]*coverage: [^"]*"[^>]*"point"', text)) == 4
    assert ">silent<" not in text
    assert "100%" in text
    dashed = re.findall(r"<line[^>]*stroke-dasharray[^>]*>", text)
    assert len(dashed) == 1


def test_stores_without_estimates_give_no_broken_figures(stored, tmp_path):
    records = [made(replicate=r, status=Status.ERROR) for r in range(2)]
    drawn = write_figures(ReportData.read(stored(records)), tmp_path / "figures")
    assert {path.stem for path in drawn.paths} == {"positivity-toy"}


@pytest.mark.usefixtures("named_marks")
def test_methods_past_the_palette_are_told_apart_in_figures(stored, tmp_path):
    names = [f"m{i:02}" for i in range(14)]
    records = [
        made(name, r, 0.1 * (place + 1) * (-1) ** r, n=n)
        for n in (10, 100)
        for place, name in enumerate(names)
        for r in range(2)
    ]
    data = ReportData.read(stored(records))
    drawn = write_figures(data, tmp_path / "figures", kinds=["sweep", "cdf"])
    svg = {path.stem: path.read_text() for path in drawn.paths if path.suffix == ".svg"}
    # Of fourteen methods and ten colors, four have dashed lines and square points.
    lines = re.findall(
        r'<path aria-label="[^"]*estimator: m[^>]*"line mark"[^>]*>',
        svg["sweep-rmse-toy-by-n-actions"],
    )
    looks = {re.search(r'stroke="[^>]*stroke-dasharray="[^"]*"', line)[0] for line in lines}
    assert len(looks) == 14
    assert all(name in svg["cdf-toy-n-actions-10"] for name in names)


def test_what_gets_no_figure_is_told(stored, tmp_path, monkeypatch):
    monkeypatch.setattr("ope_bench.report.figures.MOST_SETTINGS", 1)
    monkeypatch.setattr("ope_bench.report.figures.MOST_LINES", 1)
    records = [
        made(name, r, 0.1 * (r + 1), n=n)
        for n in (10, 100)
        for name in ("ipw", "dm")
        for r in range(2)
    ]
    data = ReportData.read(stored(records))
    drawn = write_figures(data, tmp_path / "figures", kinds=["sweep", "cdf"])
    assert "the first 1 of 2" in drawn.left_out
    assert not (tmp_path / "figures" / "cdf-toy-n-actions-100.svg").exists()
    assert (
        "the 1 best of 2 estimators"
        in (tmp_path / "figures" / "cdf-toy-n-actions-10.svg").read_text()
    )


def exploding(stored):
    """Nine estimators near 1, and one whose error grows beyond all bounds."""
    records = [
        made(f"m{place}", r, 0.1 * (place + 1) * (-1) ** r, n=n, fit_seconds=10.0 ** (place - 5))
        for n in (10, 100)
        for place in range(9)
        for r in range(4)
    ]
    records += [made("wild", r, 0.5, n=10) for r in range(4)]
    records += [made("wild", r, 1e11, n=100) for r in range(4)]
    return ReportData.read(stored(records))


def test_an_exploding_row_does_not_flatten_the_others(stored, tmp_path):
    drawn = write_figures(exploding(stored), tmp_path, kinds=["sweep", "intervals"])
    svg = {path.stem: path.read_text() for path in drawn.paths if path.suffix == ".svg"}
    for stem in ("sweep-rmse-toy-by-n-actions", "intervals-toy-n-actions-100"):
        assert "1e11" in svg[stem], stem
        assert "The axis ends below the largest values" in svg[stem]
        # The largest number among the labels is the parameter's.
        assert max(map(float, re.findall(r">([\d.]+)</text>", svg[stem]))) <= 100
    assert "The axis ends" not in svg["intervals-toy-n-actions-10"]


@pytest.mark.usefixtures("named_marks")
def test_lines_are_dotted_beside_rows_with_failures_and_their_points_hollow(stored, tmp_path):
    """At n=100 two of `partly`'s four trials fail; at 10 and 50 none does."""
    fails = {"status": Status.POSITIVITY, "estimate": None}
    records = [
        made(
            name,
            r,
            0.1 * (-1) ** r,
            n=n,
            **(fails if name == "partly" and n == 100 and r < 2 else {}),
        )
        for n in (10, 50, 100)
        for name in ("partly", "whole")
        for r in range(4)
    ]
    drawn = write_figures(ReportData.read(stored(records)), tmp_path, kinds=["sweep"])
    (path,) = [one for one in drawn.paths if one.name == "sweep-rmse-toy-by-n-actions.svg"]
    lines = re.findall(
        r'<path aria-label="[^"]*estimator: (\w+)"[^>]*"line mark"([^>]*)>', path.read_text()
    )
    dotted = [name for name, style in lines if 'stroke-dasharray="1,3"' in style]
    assert dotted == ["partly"]
    # From 50 to 100 only.
    (style,) = [style for name, style in lines if 'stroke-dasharray="1,3"' in style]
    assert re.search(r' d="([^"]*)"', style)[1].count("L") == 1
    assert path.read_text().count('fill="white"') >= 1


def test_lines_are_named_at_their_ends_without_a_legend(small, tmp_path):
    drawn = write_figures(small, tmp_path, kinds=["sweep"])
    (path,) = [one for one in drawn.paths if one.name == "sweep-rmse-toy-by-n-actions.svg"]
    texts = [element.text for element in ET.parse(path).iter() if element.tag.endswith("text")]
    assert [texts.count(name) for name in ("ipw", "dm", HOSTILE)] == [1, 1, 1]
    assert "estimator" not in texts


def test_charts_estimators_and_size_can_be_chosen(small, stored, tmp_path):
    labels = [one.label for one in small.estimators if one.estimator != "dm"]
    drawn = write_figures(small, tmp_path, kinds=["sweep", "cdf"], labels=labels, size="double")
    kinds = {path.stem.partition("-")[0] for path in drawn.paths}
    assert kinds == {"sweep", "cdf"}
    texts = [path.read_text() for path in drawn.paths if path.suffix == ".svg"]
    assert texts
    for text in texts:
        assert "ipw" in text
        assert ">dm<" not in text
        # Two columns of the class article.
        assert 440 < float(ET.fromstring(text).get("width")) < 470


def timed(place):
    return {"fit_seconds": 10.0 ** (place - 5), "exclusive": True}


def test_times_have_units(stored, tmp_path):
    records = [
        made(f"m{place}", r, 0.1 + place, estimate_seconds=1e-5, **timed(place))
        for place in range(6)
        for r in range(3)
    ]
    drawn = write_figures(ReportData.read(stored(records)), tmp_path, kinds=["times"])
    (svg,) = [path.read_text() for path in drawn.paths if path.suffix == ".svg"]
    assert {"10 µs", "1 ms", "100 ms", "1 s"} <= set(re.findall(r">([\d.]+ \w+)</text>", svg))


@pytest.mark.usefixtures("named_marks")
def test_a_band_breaks_where_few_data_sets_determine_the_error(stored, tmp_path):
    def ends_of_bands(outlier):
        """The horizontal ends of each unbroken part of the band."""
        records = [
            made("ipw", r, (0.1 + r / 100) * (outlier if (n, r) == (100, 0) else 1), n=n)
            for n in (10, 100, 1000, 10000)
            for r in range(9)
        ]
        folder = tmp_path / f"{outlier:g}"
        write_figures(ReportData.read(stored(records)), folder, kinds=["sweep"])
        text = (folder / "sweep-rmse-toy-by-n-actions.svg").read_text()
        (area,) = re.findall(r'<g class="mark-area[^>]*>\s*<path[^>]* d="([^"]*)"', text)
        parts = [re.findall(r"[ML]([\d.]+),", part) for part in area.split("Z")]
        ends = [(min(map(float, part)), max(map(float, part))) for part in parts if part]
        return [(low, high) for low, high in ends if high > low]

    ((first, _),) = ends_of_bands(1.0)
    ((third, last),) = ends_of_bands(1e4)
    assert third == pytest.approx(first + (last - first) * 2 / 3, abs=0.01)


def test_control_characters_are_escapes_in_figures(stored, tmp_path):
    """The renderer ended the process."""
    names = ("ipw", "a\x1b[31mb", "c\x00d")
    records = [
        made(name, r, 0.1 * at + 0.01 * r) for at, name in enumerate(names) for r in range(9)
    ]
    drawn = write_figures(ReportData.read(stored(records)), tmp_path / "figures")
    pages = [path for path in drawn.paths if path.suffix == ".svg"]
    assert pages
    text = "".join(path.read_text(encoding="utf-8") for path in pages)
    assert "\x1b" not in text
    assert "x1b" in text


def test_captions_explain_only_marks_that_a_figure_has(stored):
    def captions(failed, heavy):
        records = [
            made(name, r, 50.0 if r == heavy else 0.1 * (place + 1) * (-1) ** r + 0.01 * r, n=n)
            for n in (10, 100)
            for place, name in enumerate(("ipw", "dm"))
            for r in range(30)
            if (name, r) != ("dm", failed)
        ]
        lost = [made("dm", failed, status=Status.ERROR, n=n) for n in (10, 100) if failed]
        content = ReportData.read(stored([*records, *lost]))
        short = {one.label: one.label for one in content.estimators}
        return {
            (one.kind, mark)
            for one in figures(content, short)
            for mark, text in CAPTIONS[one.kind].items()
            if text in one.caption
        }

    plain = captions(None, None)
    assert {mark for _, mark in plain} == {"all", "bars", "bands", "ticks"}
    assert captions(7, None) - plain == {
        *(("sweep", "hollow"), ("intervals", "hollow"), ("cdf", "ends"))
    }
    assert captions(None, 3) - plain == {("intervals", "dashed"), ("errors", "beyond")}
