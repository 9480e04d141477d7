from __future__ import annotations

import json
from itertools import combinations, product

import numpy as np
import pytest
from judging.pages.forest import COLORS

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
    assert len(set(colors())) == 16


def test_a_style_does_not_depend_on_the_others_of_the_chart():
    found = styles_of(ALL)
    for one in ALL:
        assert styles_of({one: one}) == {one: found[one]}
        # Neither do labels of further parameters change it.
        assert styles_of({one: one, f"{one} x=1": one})[one] == found[one]


TOGETHER = {
    "policies": ("ipw", "ipws", "dm", "dr", "eipw", "eipws", "edm", "epws", "fepws"),
    "samples": (
        *("epws", "epws-paper", "fepws", "fepws-paper", "eipw"),
        *("dm-star", "dm-star-paper", "ipw-star"),
    ),
    "quick": (
        *("edm-star", "dm", "eipws", "epws", "epw", "eipw", "epws-paper"),
        *("ipws", "ipw", "ipw-star", "logging-average"),
    ),
    "doubly robust": (
        *("ipw", "dm", "dr", "sndr", "mrdr", "switch-dr", "tmle", "switch", "cab"),
        *("dr-os", "dr-ps", "sg-dr"),
    ),
    "first page of the site": ("dm", "dr-os", "dr", "ipw", "logging-average"),
}
"""Estimators whose lines stand in one figure."""


@pytest.mark.parametrize("shown", TOGETHER.values(), ids=TOGETHER)
def test_lines_that_stand_together_differ_for_those_who_see_no_green(shown):
    found = styles_of({one: one for one in shown}).values()
    drawn = [one.color for one in found]
    assert least_distance(drawn) >= 10


def test_all_colors_of_charts_differ_for_those_who_see_no_green():
    assert least_distance(colors()) >= 10
    assert least_distance([one for kind, one in COLORS.items() if kind != "o"]) >= 10
    # The page and the site draw on these.
    for paper in ("#ffffff", "#14171b"):
        assert min(contrast(one, paper) for one in colors()) > 2.4


def test_the_distance_is_that_of_cam02_ucs():
    # CIECAM02's example, XYZ 19.01, 20, 21.78 under average surround, has J 41.73 and M .1074;
    # these are colorspacious' distances of sRGB colors under sRGB's viewing conditions.
    assert ucs(np.array([[1.0, 1.0, 1.0]]))[0, 0] == pytest.approx(100, abs=0.1)
    assert least_distance(["#1a7f37", "#cf222e"]) < 10  # green and red
    assert least_distance(["#000000", "#ffffff"]) == pytest.approx(100, abs=0.1)


def linear(rgb):
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def rgb_of(color):
    return np.array([int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)])


def contrast(one, other):
    light = [float(linear(rgb_of(color)) @ TO_XYZ[1]) + 0.05 for color in (one, other)]
    return max(light) / min(light)


def least_distance(drawn):
    """Least distance in CAM02-UCS of colors as they look under deuteranopia."""
    seen = linear(np.array([rgb_of(one) for one in drawn])) @ DEUTERANOPIA.T
    seen = np.clip(seen, 0, 1)
    srgb = np.where(seen <= 0.0031308, 12.92 * seen, 1.055 * seen ** (1 / 2.4) - 0.055)
    places = ucs(srgb)
    return min(float(np.linalg.norm(one - other)) for one, other in combinations(places, 2))


TO_XYZ = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
)
DEUTERANOPIA = np.array(
    [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ]
)
"""Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB."""
CAT02 = np.array([[0.7328, 0.4296, -0.1624], [-0.7036, 1.6975, 0.0061], [0.0030, 0.0136, 0.9834]])
HUNT = np.array([[0.38971, 0.68898, -0.07868], [-0.22981, 1.18340, 0.04641], [0.0, 0.0, 1.0]])
WHITE = np.array([95.047, 100.0, 108.883])


def ucs(srgb):
    """J', a', b' of Luo, Cui and Li (2006): CIECAM02 under sRGB's conditions."""
    adapting, background, surround, induction = 64 / np.pi / 5, 20.0, 0.69, 1.0
    k = 1 / (5 * adapting + 1)
    level = 0.2 * k**4 * 5 * adapting + 0.1 * (1 - k**4) ** 2 * (5 * adapting) ** (1 / 3)
    n = background / 100
    base, nbb = 1.48 + np.sqrt(n), 0.725 * (1 / n) ** 0.2
    degree = 1 - np.exp((-adapting - 42) / 92) / 3.6

    def response(xyz):
        adapted = (100 * degree / (WHITE @ CAT02.T) + 1 - degree) * (xyz @ CAT02.T)
        cones = adapted @ np.linalg.inv(CAT02).T @ HUNT.T
        power = (level * np.abs(cones) / 100) ** 0.42
        return np.sign(cones) * 400 * power / (power + 27.13) + 0.1

    def achromatic(cones):
        return (2 * cones[..., 0] + cones[..., 1] + cones[..., 2] / 20 - 0.305) * nbb

    cones = response(100 * linear(srgb) @ TO_XYZ.T)
    a = cones[..., 0] - 12 * cones[..., 1] / 11 + cones[..., 2] / 11
    b = (cones[..., 0] + cones[..., 1] - 2 * cones[..., 2]) / 9
    hue = np.arctan2(b, a)
    lightness = 100 * (achromatic(cones) / achromatic(response(WHITE))) ** (surround * base)
    eccentricity = (np.cos(hue + 2) + 3.8) / 4
    t = 50000 / 13 * induction * nbb * eccentricity * np.hypot(a, b)
    t /= cones[..., 0] + cones[..., 1] + 1.05 * cones[..., 2]
    chroma = t**0.9 * np.sqrt(lightness / 100) * (1.64 - 0.29**n) ** 0.73
    colorfulness = np.log1p(0.0228 * chroma * level**0.25) / 0.0228
    j = 1.7 * lightness / (1 + 0.007 * lightness)
    return np.stack([j, colorfulness * np.cos(hue), colorfulness * np.sin(hue)], axis=-1)


def test_what_stands_together_is_told_apart_without_colors():
    for shown in (TOGETHER["policies"], TOGETHER["samples"]):
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
