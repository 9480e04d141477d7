"""Colors of text on the site and on the report page: their contrast by WCAG 2 is at least 4.5."""

from __future__ import annotations

import re
from itertools import product

import pytest

from board_pages import COMPARED, FIRST_TRACK
from committed import TRACKS
from field_charts import comparison_chart
from support.paths import ROOT

SHEETS = ("bench/docs/_static/site.css", "bench/ope_bench/report/page/page.css")


def _luminance(color: str) -> float:
    shares = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [
        share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares
    ]
    return sum(weight * one for weight, one in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(first: str, second: str) -> float:
    """Return the contrast ratio of two colors, from 1 to 21."""
    dark, light = sorted((_luminance(first), _luminance(second)))
    return (light + 0.05) / (dark + 0.05)


def test_contrast_is_that_of_wcag() -> None:
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)


@pytest.mark.parametrize("sheet", SHEETS)
def test_text_is_legible_in_light_and_dark(sheet: str) -> None:
    style = (ROOT / sheet).read_text(encoding="utf-8")
    schemes = [dict(re.findall(r"--(\w+): (#\w{6});", one)) for one in style.split("--paper:")[1:]]
    papers = re.findall(r"--paper: (#\w{6});", style)
    used = set(re.findall(r"(?<![-\w])(?:color|fill): var\(--(\w+)\)", style)) - {"paper"}
    assert {"ink", "soft", "accent", "bad"} <= used
    low = []
    for paper, others in zip(papers, schemes, strict=True):
        scheme = others | {"paper": paper}
        pairs = [*product(sorted(used), ("paper", "raised")), ("paper", "accent")]
        pairs += [("ink", "mark"), ("warn", "mark")] if "mark" in scheme else []
        for text, behind in pairs:
            ratio = contrast(
                (scheme | {"paper": paper})[text], (scheme | {"paper": paper})[behind]
            )
            if ratio < 4.5:
                low.append((paper, text, behind, round(ratio, 2)))
    assert low == []


def test_labels_of_lines_have_the_color_of_text() -> None:
    chart = comparison_chart(TRACKS[FIRST_TRACK], COMPARED)
    labels = re.findall(r"<text[^>]*>", chart)
    assert sum('class="c-name"' in one for one in labels) == len(COMPARED)
    assert not [one for one in labels if "fill" in one or "style" in one]
