"""The field's own packages give the same values, where they are installed.

Outcome of one run with all of them: results/performance/peers.md. `adapt` needs TensorFlow for its
KLIEP, RuLSIF and KMM and is left out.
"""

from __future__ import annotations

import warnings

import pytest

from support.peers import PACKAGES, distances

ALLOWED = {"kliep, likelihood that theirs reaches beyond ours": 1e-4}
"""Largest distance where a search stops at a tolerance of its own; else that of rounding."""


@pytest.mark.parametrize("package", PACKAGES)
def test_the_values_are_those_of_the_package(package: str) -> None:
    with warnings.catch_warnings():
        # These packages use what their own dependencies have deprecated.
        warnings.simplefilter("ignore")
        pytest.importorskip(PACKAGES[package][0], reason=f"{package} is not installed")
        found = dict(distances(package))
    wrong = {name: far for name, far in found.items() if far > ALLOWED.get(name, 1e-8)}
    assert not wrong
