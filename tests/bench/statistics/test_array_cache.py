"""Arrays are kept up to a number of bytes, whatever their number."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from ope_bench.statistics import paired_tests
from ope_bench.statistics.error_distribution import array_cache
from ope_bench.statistics.paired_tests import compare_rows


def made(most_bytes: int):
    calls = []

    @array_cache(most_bytes)
    def zeros(n, name):
        calls.append((n, name))
        return np.zeros(n)

    return zeros, calls


def test_what_was_used_longest_ago_is_forgotten_first():
    zeros, calls = made(24)
    for name in "abcadaabc":
        zeros(1, name)
    assert "".join(name for _, name in calls) == "abcdbc"


def test_bytes_count_and_not_entries():
    zeros, calls = made(800)
    for name in "ab" * 3:
        zeros(50, name)
        zeros(1, name)
    assert len(calls) > 4
    calls.clear()
    for number in 2 * list(range(100)):
        zeros(1, number)
    assert len(calls) <= 100


def test_a_large_array_drives_out_as_many_small_ones_as_it_needs():
    zeros, calls = made(8 * 10)
    for name in "abcd":
        zeros(2, name)
    zeros(8, "e")
    calls.clear()
    for name in "dcba":
        zeros(2, name)
    assert "".join(name for _, name in calls) == "cba"


def test_an_array_larger_than_all_is_not_kept_and_drives_out_nothing():
    zeros, calls = made(80)
    for n in (1, 11, 11, 1):
        assert len(zeros(n, "")) == n
    assert calls == [(1, ""), (11, ""), (11, "")]


def test_what_is_kept_cannot_be_changed():
    zeros, _ = made(80)
    with pytest.raises(ValueError, match="read-only"):
        zeros(3, "")[0] = 1.0


def test_swaps_of_many_replicates_are_not_all_kept(monkeypatch):
    monkeypatch.setattr(paired_tests, "FIRST_DRAWS", 16 * 20)
    errors = np.random.default_rng(0).normal(size=(2, 40_000))
    tracemalloc.start()
    try:
        compare_rows(errors, 0)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # All of them are 102 MB.
    assert held < 1.1 * paired_tests.KEPT_BYTES
