"""Peak memory: exact where the kernel can reset its counter, honest elsewhere."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from ope_bench.trials import timing


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can reset the counter")
def test_a_small_block_after_a_large_one_has_a_peak_of_its_own() -> None:
    # In a process of its own: a large one that has just given memory back has no higher peak.
    code = (
        "import numpy as np\n"
        "from ope_bench.trials import timing\n"
        "timing.reset_peak_rss()\n"
        "before = timing.peak_rss_bytes()\n"
        "np.ones(8_000_000).sum()\n"
        "large = timing.peak_rss_bytes()\n"
        "timing.reset_peak_rss()\n"
        "print(before, large, timing.peak_rss_bytes())\n"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    before, large, small = map(int, told.stdout.split())
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
