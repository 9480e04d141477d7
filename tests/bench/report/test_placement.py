"""Places of names in figures, ends of axes, and ticks."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ope_bench.report.chart_parts import AxisLimits, limits_of, log_axis, symlog_ticks
from ope_bench.report.content import MOST_RANKED, rank_lines
from ope_bench.report.figure_layout import Frame, line_ends, point_names, spread

places = st.lists(st.floats(0, 100, allow_nan=False), min_size=1, max_size=12)


@given(places)
def test_spread_names_keep_their_order_and_do_not_touch(wanted):
    found = spread(wanted, 7.0, 100.0)
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    ordered = [found[i] for i in order]
    assert all(b - a >= 7.0 - 1e-6 for a, b in itertools.pairwise(ordered))
    assert min(found) >= -1e-6
    assert max(found) <= 100 + 1e-6


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_names_that_have_room_stay_where_they_belong(shares):
    room = 100.0 - 7.0 * (len(shares) - 1)
    order = sorted(range(len(shares)), key=lambda i: shares[i])
    wanted = [7.0 * order.index(i) + share * room for i, share in enumerate(shares)]
    assert spread(wanted, 7.0, 100.0) == pytest.approx(wanted)


def test_line_ends_are_the_last_known_points():
    lines = [
        {"method": "a", "value": 10.0, "rmse": 1.0},
        {"method": "a", "value": 100.0, "rmse": 10.0},
        {"method": "b", "value": 10.0, "rmse": 1.0},
        {"method": "b", "value": 100.0, "rmse": None},
        {"method": "c", "value": 100.0, "rmse": 1e9},
    ]
    ends = line_ends(lines, "rmse", Frame(-1.0, 2.0, 120.0), math.log10)
    known = {end["method"]: end for end in ends}
    assert [known[name]["value"] for name in "abc"] == [100.0, 10.0, 100.0]
    assert known["a"]["y"] == known["a"]["at"] == pytest.approx(10.0)
    # What the axis cuts ends at the axis.
    assert known["c"]["y"] == pytest.approx(100.0)


def test_names_of_points_lie_within_the_frame_and_not_on_each_other():
    rows = [
        {"method": f"name-{i}", "seconds": 10.0 ** (i % 3), "rmse": 1.0 + 0.05 * i}
        for i in range(9)
    ]
    across, up = Frame(-1.0, 3.0, 200.0), Frame(-0.5, 0.6, 130.0)
    named = point_names(rows, across, up, 3.7)
    boxes = []
    for one in named:
        x, y = across.points(math.log10(one["x"])), up.points(math.log10(one["y"]))
        width = 5 + 3.7 * len(one["method"])
        box = (x - width, x, y) if one["left"] else (x, x + width, y)
        assert 0 <= box[0] < box[1] <= 200
        assert not [
            other
            for other in boxes
            if abs(other[2] - y) < 4 and box[0] < other[1] and other[0] < box[1]
        ]
        boxes.append(box)


def test_limits_leave_out_what_is_far_above_the_others():
    assert limits_of([]) is None
    assert limits_of([None, 0.0]) is None
    assert limits_of([1.0]) == AxisLimits(1.0, 1.0)
    assert limits_of([1.0, 2.0, 20.0]) == AxisLimits(1.0, 20.0)
    found = limits_of([1.0, 2.0, 3.0, 4.0, 1e9])
    assert found.cut
    assert 4.0 <= found.high < 100
    low, high = found.domain
    assert low < 1.0 < 4.0 < high < 1e9


def test_ticks_are_powers_of_ten_over_many_and_their_parts_over_few():
    def ticks(low, high):
        return log_axis(limits=AxisLimits(low, high)).to_dict()["values"]

    assert {0.001, 0.01, 0.1, 1.0, 10.0} <= set(ticks(1e-3, 10.0))
    assert 0.2 not in ticks(1e-3, 10.0)
    assert {0.1, 0.2, 0.5, 1.0} <= set(ticks(0.1, 1.0))
    assert len(ticks(1e-20, 1e20)) < 12


def test_ticks_about_zero_are_symmetric():
    ticks = symlog_ticks(0.02, 3.0)
    assert ticks == [-1.0, -0.1, 0.0, 0.1, 1.0]
    assert len(symlog_ticks(1e-6, 1e9)) <= 11


def ranked(n, apart, critical):
    rows = [type("R", (), {"mean_rank": 1.0 + apart * i})() for i in range(n)]
    return type("S", (), {"rows": rows, "critical_difference": critical})()


@pytest.mark.parametrize(
    ("summary", "drawn"),
    [
        (ranked(5, 1.0, 2.0), True),
        (ranked(5, 1.0, 4.0), False),
        (ranked(MOST_RANKED, 1.0, 4.0), True),
        (ranked(MOST_RANKED + 1, 1.0, 4.0), False),
        (ranked(1, 1.0, 0.0), False),
        (ranked(5, 1.0, None), False),
    ],
)
def test_a_critical_difference_diagram_is_drawn_where_it_can_be_read(summary, drawn):

    labels = [f"m{i}" for i in range(len(summary.rows))]
    assert bool(rank_lines(labels, summary)["methods"]) is drawn
