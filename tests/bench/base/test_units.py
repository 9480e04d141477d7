"""Sizes and durations: what is read, what is refused, and that what is shown can be read again."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ope_bench.base.errors import UsageError
from ope_bench.base.units import format_duration, format_size, parse_duration, parse_size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("60s", 60),
        ("2m", 120),
        ("1h30m", 5400),
        ("1 H 30 Min", 5400),
        ("500ms", 0.5),
        ("1.5 h", 5400),
        ("1d", 86400),
        (".5s", 0.5),
        (3, 3),
        ("7", 7),
    ],
)
def test_durations_read(text: object, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4GiB", 2**32),
        ("512MiB", 2**29),
        ("1 kB", 1000),
        ("2G", 2**31),
        ("3tb", 3 * 10**12),
        ("1.5KiB", 1536),
        ("10b", 10),
        (4096, 4096),
        ("9", 9),
    ],
)
def test_sizes_read(text: object, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "given", ["", "s", "0s", "-1s", "1x", "1s2", "1m,5s", "inf", "1e3s", "\u0661s", True, None, 0]
)
def test_what_is_no_duration_is_refused_with_an_example(given: object) -> None:
    with pytest.raises(UsageError, match="is not a duration; write for example 60s"):
        parse_duration(given)


@pytest.mark.parametrize(
    "given", ["", "MiB", "0", "0.5", "-1", "4 Gb/s", "1e3", "9999999T", False]
)
def test_what_is_no_size_is_refused_with_an_example(given: object) -> None:
    with pytest.raises(UsageError, match="is not a memory size; write for example 512MiB"):
        parse_size(given)


@given(
    st.text(max_size=12) | st.integers() | st.floats() | st.none() | st.booleans(),
    st.sampled_from([parse_duration, parse_size]),
)
def test_a_quantity_is_positive_or_refused(text: object, parse: Callable[[object], float]) -> None:
    try:
        value = parse(text)
    except UsageError:
        return
    assert value > 0
    assert math.isfinite(value)


@given(st.floats(0.001, 1e8))
def test_a_duration_shown_reads_as_about_the_same(seconds: float) -> None:
    shown = format_duration(seconds)
    assert len(shown) <= 14
    # Half of the smaller unit shown, or a whole one where the rest is cut off.
    unit = {"ms": 0.0005, "s": 0.5, "min": 60, "h": 3600, "d": 86400}[shown.split()[-1]]
    # 62.5 ms read as 62 ms are half a unit off, but for rounding.
    assert abs(parse_duration(shown) - seconds) <= unit * (1 + 1e-9)


@given(st.integers(1, 10**15))
def test_a_size_shown_reads_as_about_the_same(size: int) -> None:
    shown = format_size(size)
    assert len(shown) <= 9
    assert parse_size(shown) == pytest.approx(size, rel=0.006)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.9994, "999 ms"),
        (0.9996, "1.0 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min"),
        (3599.6, "1 h"),
        (86399.6, "1 d"),
        (90061, "1 d 1 h"),
    ],
)
def test_durations_are_rounded_before_their_unit_is_chosen(seconds: float, shown: str) -> None:
    assert format_duration(seconds) == shown


@pytest.mark.parametrize(
    ("size", "shown"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (1 << 40, "1 TiB"), (1 << 52, "4096 TiB")],
)
def test_sizes_change_their_unit_at_powers_of_1024(size: int, shown: str) -> None:
    assert format_size(size) == shown
