from __future__ import annotations

import json

import pytest

from ope_bench.report import charts
from ope_bench.report.labels import short_labels
from ope_bench.report.styles import DASHES, PAGE, PAPER, SHAPES, apply, styles


@pytest.mark.parametrize("palette", [PAGE, PAPER])
def test_no_two_methods_look_the_same(palette):
    many = styles(80, palette)
    assert len({(one.colour, one.dash) for one in many}) == 80
    assert len({(one.colour, one.shape) for one in many}) == 80
    assert len(set(styles(600, palette))) == 600


def test_patterns_and_shapes_differ():
    assert len(set(DASHES)) == len(set(SHAPES)) == 8
    assert len(set(PAGE)) == len(set(PAPER)) == 10


def scales(node, channel):
    found = []
    if isinstance(node, dict):
        one = node.get(channel)
        if isinstance(one, dict) and one.get("field") == "method":
            found.append(one.get("scale"))
        for value in node.values():
            found += scales(value, channel)
    elif isinstance(node, list):
        for value in node:
            found += scales(value, channel)
    return found


@pytest.mark.parametrize("name", charts.CHARTS)
def test_a_chart_is_valid_and_every_channel_of_a_method_follows_its_style(name):
    spec = charts.CHARTS[name]().to_dict()
    chosen = dict(zip(("a", "b"), styles(2, PAPER), strict=True))
    apply(spec, chosen, "white")
    assert '"paper"' not in json.dumps(spec)
    for channel, part in (("color", "colour"), ("shape", "shape")):
        for scale in scales(spec, channel):
            assert scale == {
                "domain": ["a", "b"],
                "range": [getattr(style, part) for style in chosen.values()],
            }
    for scale in scales(spec, "strokeDash"):
        assert scale["range"] == [list(style.dash) for style in chosen.values()]


@pytest.mark.parametrize("name", ["sweep", "sweep_log10", "cdf", "pareto"])
def test_charts_of_lines_and_points_tell_methods_apart_by_more_than_colour(name):
    spec = charts.CHARTS[name]().to_dict()
    assert scales(spec, "strokeDash") or scales(spec, "shape")


def test_short_labels_stay_different():
    labels = ["dm x=one", "dm y=one", "dm x=two", "dm", "ipw clip=5", "dr exact=true", "a | b=c"]
    short = short_labels(labels)
    assert list(short) == labels
    assert len(set(short.values())) == len(labels)
    assert short["dm x=two"] == "dm two"
    assert [short[one] for one in ("dm x=one", "dm y=one")] == ["dm x=one", "dm y=one"]
    assert [short[one] for one in ("ipw clip=5", "dr exact=true")] == [
        "ipw clip=5",
        "dr exact=true",
    ]
