"""Seeds and keys come from content: common random numbers, stable names."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from ope_bench.contracts.random import DataSeed, sample_indices, stream
from ope_bench.plugins.spec import PluginSpec, resolve
from ope_bench.trials.record import Trial
from ope_bench.trials.status import Device

ENVIRONMENT = PluginSpec("environment", "ope-bench:toy", "toy", {"n": 10}, version=2)
ESTIMATOR = PluginSpec("estimator", "ope-bench:ipw", "ipw", {"clip": None})
TRIAL = Trial(ENVIRONMENT, ESTIMATOR, replicate=3, seed=7)


def test_streams_of_one_replicate_are_different():
    seed = DataSeed("toy", 0, 0)
    streams = [seed.world(), seed.logged(), seed.target()]
    streams += [seed.estimator("a"), seed.estimator("b"), seed.nuisance("a")]
    others = DataSeed("toy", 1, 0), DataSeed("toy", 0, 1), DataSeed("other", 0, 0)
    streams += [other.logged() for other in others]
    assert len({one.random() for one in streams}) == len(streams)


def test_a_fixed_world_is_one_for_all_replicates_and_their_logs_differ():
    seeds = [DataSeed("toy", 0, replicate, "fixed") for replicate in range(2)]
    assert seeds[0].world().random() == seeds[1].world().random()
    assert seeds[0].logged().random() != seeds[1].logged().random()
    redrawn = DataSeed("toy", 0, 0, "redrawn")
    assert redrawn.logged().random() == seeds[0].logged().random()


def test_parameters_do_not_change_the_streams():
    """Common random numbers: a sweep over a parameter compares like with like."""
    other = replace(TRIAL, environment=replace(ENVIRONMENT, params={"n": 99, "new": 1}))
    assert other.data_seed == TRIAL.data_seed
    assert other.key != TRIAL.key
    assert other.data_key != TRIAL.data_key


def test_more_logged_rows_begin_with_the_same_randomness():
    from ope_bench.trials.trial import build

    small, large = (
        build(resolve("environment", "saito-toy", {"n_samples": n})).sample(
            world_rng=TRIAL.data_seed.world(),
            logged_rng=TRIAL.data_seed.logged(),
            target_rng=TRIAL.data_seed.target(),
        )
        for n in (50, 100)
    )
    # One world; what is drawn row by row from it may be arranged as the environment likes.
    context, action = small[0].context, small[0].action
    have, want = (one[0].target_policy.probability(context, action) for one in (small, large))
    np.testing.assert_array_equal(have, want)


def test_the_estimators_parameters_do_not_change_its_stream():
    other = replace(TRIAL, estimator=replace(ESTIMATOR, params={"clip": 3.0}))
    have, want = (t.data_seed.estimator(t.estimator.id).random() for t in (other, TRIAL))
    assert have == want


@pytest.mark.parametrize(
    "change",
    [
        {"replicate": 4},
        {"seed": 8},
        {"device": Device.CUDA},
        {"threads": 2},
        {"estimator": replace(ESTIMATOR, id="dm")},
        {"estimator": replace(ESTIMATOR, params={"clip": 1.0})},
        {"environment": replace(ENVIRONMENT, version=3)},
        {"environment": replace(ENVIRONMENT, worlds="fixed")},
    ],
)
def test_the_key_says_what_was_asked(change):
    assert replace(TRIAL, **change).key != TRIAL.key


@pytest.mark.parametrize(
    "change",
    [
        {"estimator": replace(ESTIMATOR, label="IPW as printed")},
        {"estimator": replace(ESTIMATOR, origin="elsewhere 2")},
        {"estimator": replace(ESTIMATOR, reference="./my.py:IPW")},
        {"environment": replace(ENVIRONMENT, origin="elsewhere 2")},
    ],
)
def test_the_key_does_not_say_who_answers_or_what_it_is_called(change):
    assert replace(TRIAL, **change).key == TRIAL.key


def test_keys_and_streams_are_the_same_for_ever():
    """A change here makes every stored result stale and every published number irreproducible."""
    assert TRIAL.key == "4c7d33627a95c5fc869e149ca546957b43f9ab32b7cd8b3a3d74aaf66ace808a"
    assert stream("world", "toy", 0).random() == float.fromhex("0x1.921ed158a6662p-1")


def test_the_order_of_parameters_does_not_matter():
    one = replace(ESTIMATOR, params={"a": 1, "b": 2})
    other = replace(ESTIMATOR, params={"b": 2, "a": 1})
    assert replace(TRIAL, estimator=one).key == replace(TRIAL, estimator=other).key


def test_keys_do_not_depend_on_the_process():
    code = (
        "from ope_bench.plugins.spec import resolve\n"
        "from ope_bench.trials.record import Trial\n"
        "print(Trial(resolve('environment', 'saito-toy'), resolve('estimator', 'ipw'), 0).key)"
    )
    ours = Trial(resolve("environment", "saito-toy"), resolve("estimator", "ipw"), 0).key
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == ours


def test_seeds_of_global_generators_are_the_first_32_bits_of_a_digest():
    # Written down once: other seeds would change every estimate of a plugin that draws from them.
    seed = DataSeed("toy", 1, 2)
    assert (seed.global_seed("ipw"), seed.global_seed("")) == (291_280_135, 728_436_436)
    seeds = [DataSeed("toy", 0, replicate).global_seed("ipw") for replicate in range(200)]
    assert 2**31 < max(seeds) < 2**32


def test_draws_among_many_actions_are_those_of_the_inverse_distribution_function():
    rng = np.random.default_rng(0)
    for n in (300, 320, 385):
        weights, uniform = rng.random((40, n)) ** 4, rng.random(40)
        weights[0, :-1], uniform[1] = 0.0, 0.0
        cumulative = np.cumsum(weights, axis=1)
        wanted = [
            np.searchsorted(row, u * row[-1], side="right")
            for row, u in zip(cumulative, uniform, strict=True)
        ]
        assert sample_indices(weights, uniform).tolist() == wanted
