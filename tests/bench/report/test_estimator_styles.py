from __future__ import annotations

import json
from itertools import product

import pytest

from ope_bench.plugins.registry import registry
from ope_bench.report import charts
from ope_bench.report.styles import DASHES, SHAPES, apply, colors, short_labels, styles_of

ALL = {plugin.id: plugin.id for plugin in registry().plugins("estimator")}


def test_every_estimator_has_a_style_of_its_own_in_lines_and_in_points():
    found = styles_of(ALL)
    assert len(set(found.values())) == len(ALL) > 50
    assert len({(one.color, one.shape) for one in found.values()}) > 0.8 * len(ALL)


def test_patterns_shapes_and_colors_differ():
    assert len(set(DASHES)) == len(set(SHAPES)) == 8
    assert len(set(colors())) == 10


def test_a_style_does_not_depend_on_the_others_of_the_chart():
    found = styles_of(ALL)
    for one in ALL:
        assert styles_of({one: one}) == {one: found[one]}
        # Neither do labels of further parameters change it.
        assert styles_of({one: one, f"{one} x=1": one})[one] == found[one]


def test_what_stands_together_is_told_apart_without_colors():
    """The estimators of the two figures of the README."""
    policies = ("ipw", "ipws", "dm", "dr", "eipw", "eipws", "edm", "epws", "fepws")
    samples = ("epws", "epws-paper", "fepws", "fepws-paper", "eipw", "dm-star", "dm-star-paper")
    for shown in (policies, (*samples, "ipw-star")):
        found = styles_of({one: one for one in shown}).values()
        assert len({(one.dash, one.shape) for one in found}) == len(shown)


def test_many_labels_of_one_estimator_all_differ():
    many = {f"ipw clip={i}": "ipw" for i in range(600)}
    found = styles_of(many)
    assert len(set(found.values())) == 600
    assert list(found) == list(many)
    few = styles_of(dict.fromkeys(list(many)[:60], "ipw"))
    assert len({one.color for one in few.values()}) == 1


def test_unknown_estimators_have_styles_too():
    names = [f"{a}-{b}" for a, b in product(("mine", "yours", "acme"), range(10))]
    found = styles_of({name: name for name in names})
    assert len(set(found.values())) == 30
    assert len({one.color for one in found.values()}) > 4


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
    chosen = styles_of({"a": "ipw", "b": "dm"})
    apply(spec, chosen, "white")
    assert '"paper"' not in json.dumps(spec)
    # Charts of shares and of times name methods on an axis.
    assert bool(scales(spec, "color")) is (name not in ("positivity", "times"))
    for channel, part in (("color", "color"), ("shape", "shape")):
        for scale in scales(spec, channel):
            assert scale == {
                "domain": ["a", "b"],
                "range": [getattr(style, part) for style in chosen.values()],
            }
    for scale in scales(spec, "strokeDash"):
        assert scale["range"] == [list(style.dash) for style in chosen.values()]


@pytest.mark.parametrize("name", ["sweep", "sweep_log10", "cdf", "pareto"])
def test_charts_of_lines_and_points_tell_methods_apart_by_more_than_color(name):
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
