"""Values of lists beside those of the Open Bandit Pipeline, where it is installed.

It needs an environment of its own; results/ranking/peers.md has what came of it there.
"""

import importlib.util
import sys

import pytest

from support.paths import ROOT

SCRIPT = ROOT / "results" / "performance" / "scripts" / "list_peers.py"


def test_values_are_those_of_the_open_bandit_pipeline():
    pytest.importorskip(
        "obp.ope.estimators_slate", reason="sb-obp is not installed", exc_type=ImportError
    )
    spec = importlib.util.spec_from_file_location("list_peers", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["list_peers"] = module
    spec.loader.exec_module(module)
    found = module.pairs()
    assert len(found) == 6
    for name, (own, other) in found.items():
        assert own == pytest.approx(other, abs=1e-12), name
