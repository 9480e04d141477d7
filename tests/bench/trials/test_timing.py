"""Peak memory: exact where the kernel can reset its counter, honest elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
import pytest

from ope_bench.trials import timing


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can reset the counter")
def test_a_small_block_after_a_large_one_has_a_peak_of_its_own() -> None:
    timing.reset_peak_rss()
    before = timing.peak_rss_bytes()
    np.ones(8_000_000).sum()
    large = timing.peak_rss_bytes()
    timing.reset_peak_rss()
    small = timing.peak_rss_bytes()
    assert before is not None
    assert large is not None
    assert small is not None
    assert large - before > 50e6
    assert small - before < 10e6


def test_elsewhere_a_peak_counts_only_if_it_rose(monkeypatch: pytest.MonkeyPatch) -> None:
    peaks: Iterator[int] = iter([100, 300, 300, 300])
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(timing, "_lifetime_peak", lambda: next(peaks))
    timing.reset_peak_rss()
    assert timing.peak_rss_bytes() == 300
    timing.reset_peak_rss()
    assert timing.peak_rss_bytes() is None


def test_a_process_has_a_peak_on_every_system() -> None:
    assert timing._lifetime_peak() > 0
