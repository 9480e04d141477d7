"""Shards: each trial in exactly one, chosen by its content, all of one size."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from ope_bench.base.errors import UsageError
from ope_bench.suites.manifest import Manifest, Shard, parse_shard, plan
from ope_bench.suites.suite import adhoc


@pytest.fixture(scope="module")
def manifest() -> Manifest:
    """Three settings, two estimators, 20 replicates."""
    suite = adhoc(["gaussian[n_samples=[10,20,30]]"], ["ipw", "logging-average"])
    return plan(replace(suite, replicates=20))


@pytest.mark.parametrize("count", [1, 2, 3, 7, 50])
def test_every_trial_is_in_exactly_one_shard_and_shards_are_alike(
    manifest: Manifest, count: int
) -> None:
    parts = [replace(manifest, shard=Shard(i + 1, count)).trials for i in range(count)]
    keys = Counter(trial.key for part in parts for trial in part)
    assert keys == Counter(trial.key for trial in manifest.trials)
    for cell in manifest.cells:
        sizes = [
            sum((t.environment, t.estimator) == (cell.environment, cell.estimator) for t in part)
            for part in parts
        ]
        assert max(sizes) - min(sizes) <= 1, "a shard has more replicates of a setting"


def test_estimators_on_the_same_data_share_their_shard(manifest: Manifest) -> None:
    part = replace(manifest, shard=Shard(2, 3)).trials
    assert set(Counter(trial.data_key for trial in part).values()) == {2}


def test_the_rest_of_the_plan_moves_no_trial(manifest: Manifest) -> None:
    longer = replace(manifest, suite=replace(manifest.suite, replicates=25))
    fewer = replace(manifest, cells=manifest.cells[:1])
    here = {trial.key for trial in replace(manifest, shard=Shard(1, 4)).trials}
    more = {trial.key for trial in replace(longer, shard=Shard(1, 4)).trials}
    less = {trial.key for trial in replace(fewer, shard=Shard(1, 4)).trials}
    planned = {trial.key for trial in manifest.trials}
    assert less < here < more
    assert more & planned == here


def test_replicates_that_are_trained_together_stay_together(manifest: Manifest) -> None:
    from ope_bench.trials.status import Device

    size = Device.CPU_BATCH.block_size
    trials = [
        replace(manifest.trials[0], device=Device.CPU_BATCH, replicate=number)
        for number in range(4 * size)
    ]
    for number in (1, 2):
        held = {t.replicate // size for t in trials if Shard(number, 2).holds(t)}
        assert len(held) == 2
        assert sum(Shard(number, 2).holds(trial) for trial in trials) == 2 * size


@pytest.mark.parametrize("text", ["", "3", "0/2", "3/2", "a/b", "1/0", "1/2/3", "-1/2"])
def test_what_is_no_shard_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a shard"):
        parse_shard(text)
