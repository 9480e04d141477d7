from __future__ import annotations

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
    written = write_figures(small, tmp_path / "figures")
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
    written = write_figures(Content.read(stored(records)), tmp_path / "figures")
    assert {path.stem for path in written} == {"positivity-toy"}
