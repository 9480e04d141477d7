from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest

from ope_bench.records import Status
from ope_bench.report.content import Content
from ope_bench.report.figures import FORMATS, write_figures

from .conftest import HOSTILE, made


@pytest.fixture
def small(stored):
    names = ("ipw", "dm", HOSTILE)
    return Content.read(
        stored(
            [
                made(name, r, 0.1 * (place + 1) * (-1) ** r + 0.01 * r, n=n)
                for n in (10, 100)
                for place, name in enumerate(names)
                for r in range(9)
            ]
        )
    )


def test_every_chart_comes_in_every_format(small, tmp_path):
    drawn = write_figures(small, tmp_path / "figures")
    written = drawn.paths
    assert drawn.left_out is None
    names = {path.stem.partition("-")[0] for path in written}
    assert names == {"sweep", "positivity", "ranks", "intervals", "errors", "cdf"}
    assert {path.suffix[1:] for path in written} == set(FORMATS)
    begins = {".png": b"\x89PNG", ".pdf": b"%PDF", ".svg": b"<svg"}
    for path in written:
        assert path.read_bytes().startswith(begins[path.suffix])
    (sweep,) = [path for path in written if path.name.startswith("sweep-rmse")][:1]
    text = "".join(ET.parse(sweep.with_suffix(".svg")).getroot().itertext())
    assert "n actions" in text
    assert HOSTILE in text
    # A column of a paper is 3.5 inches at most.
    assert float(ET.parse(sweep.with_suffix(".svg")).getroot().get("width")) <= 260


def test_stores_without_estimates_give_no_broken_figures(stored, tmp_path):
    records = [made(replicate=r, status=Status.ERROR) for r in range(2)]
    drawn = write_figures(Content.read(stored(records)), tmp_path / "figures")
    assert {path.stem for path in drawn.paths} == {"positivity-toy"}


def test_methods_past_the_palette_are_told_apart_in_figures(stored, tmp_path):
    names = [f"m{i:02}" for i in range(14)]
    records = [
        made(name, r, 0.1 * (place + 1) * (-1) ** r, n=n)
        for n in (10, 100)
        for place, name in enumerate(names)
        for r in range(2)
    ]
    drawn = write_figures(Content.read(stored(records)), tmp_path / "figures")
    svg = {path.stem: path.read_text() for path in drawn.paths if path.suffix == ".svg"}
    # Of fourteen methods and ten colours, four have dashed lines and square points.
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
    drawn = write_figures(Content.read(stored(records)), tmp_path / "figures")
    assert "the first 1 of 2" in drawn.left_out
    assert not (tmp_path / "figures" / "cdf-toy-n-actions-100.svg").exists()
    assert (
        "the 1 best of 2 estimators"
        in (tmp_path / "figures" / "cdf-toy-n-actions-10.svg").read_text()
    )
