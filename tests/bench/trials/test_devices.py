"""A device is its word wherever it is written down."""

from __future__ import annotations

import hashlib
import json
import pickle

import pytest

from ope_bench.base.canonical import canonical_json
from ope_bench.plugins.spec import PluginSpec
from ope_bench.trials.record import Trial
from ope_bench.trials.status import Device

WORLD = PluginSpec("environment", "toy", "toy", {"n": 10})
METHOD = PluginSpec("estimator", "ipw", "ipw", {"clip": None})


@pytest.mark.parametrize("device", Device)
def test_a_device_is_written_as_its_word_and_read_as_itself(device: Device) -> None:
    word = device.value
    assert type(word) is str
    assert f"{device}" == str(device) == word
    assert canonical_json([device]) == canonical_json([word])
    assert Device(json.loads(json.dumps(device))) is device
    assert pickle.loads(pickle.dumps(device)) is device
    assert {device: 1}[word] == 1


@pytest.mark.parametrize("device", Device)
def test_a_key_holds_the_word_of_the_device(device: Device) -> None:
    asked = {
        "device": device.value,
        "environment": WORLD.identity,
        "estimator": METHOD.identity,
        "replicate": 3,
        "schema": 1,
        "seed": 7,
        "threads": 1,
    }
    expected = hashlib.sha256(json.dumps(asked, sort_keys=True, separators=(",", ":")).encode())
    assert Trial(WORLD, METHOD, 3, seed=7, device=device).key == expected.hexdigest()


@pytest.mark.parametrize("backend", ["cpu", "cuda"])
def test_every_backend_has_a_plain_device_and_a_batched_one(backend: str) -> None:
    assert [one.batched for one in Device if one.backend == backend] == [False, True]


def test_estimators_are_told_a_plain_word_that_torch_knows() -> None:
    assert {device.backend for device in Device} == {"cpu", "cuda"}
    assert {type(device.backend) for device in Device} == {str}


@pytest.mark.parametrize("device", Device)
def test_a_block_holds_as_many_replicates_as_its_device_says(device: Device) -> None:
    size = device.block_size
    groups = [Trial(WORLD, METHOD, number, device=device).group for number in range(2 * size)]
    assert len(set(groups[:size])) == len(set(groups[size:])) == 1
    assert groups[0] != groups[size]
