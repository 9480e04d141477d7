from dataclasses import replace

import pytest

from ope_bench.gate import baseline as pairing
from ope_bench.gate.baseline import Baseline, SuiteFacts


@pytest.fixture
def toys_resolve(monkeypatch):
    """The toy plugins are not installed: specs resolve to themselves, with today's changes."""
    changes = {}

    def resolve(kind, reference, params, *, label=""):
        specs, change = changes["specs"], changes.get(reference)
        if isinstance(change, Exception):
            raise change
        params = {name: value for name, value in params.items() if name != "worlds"}
        spec = next(
            one for one in specs if (one.kind, one.id, one.params) == (kind, reference, params)
        )
        return replace(spec, **(change or {}))

    monkeypatch.setattr(pairing, "resolve", resolve)
    return changes


@pytest.fixture
def baseline(normal_row, record, toys_resolve):
    def make(*rows, replicates=30, given=None):
        records = [one for row in rows for one in row]
        specs = [one.trial.environment for one in records]
        toys_resolve["specs"] = specs + [one.trial.estimator for one in records]
        facts = SuiteFacts("toy", "empirical", replicates)
        return Baseline(facts, tuple(records), given=given or {})

    return make
