"""Every trial is handed out once; data stay with a slot while there is choice."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from ope_bench.execution.local import TrialQueue
from ope_bench.plugins.spec import PluginSpec
from ope_bench.trials.record import Trial

WORLD = PluginSpec("environment", "w", "w")
METHODS = [PluginSpec("estimator", str(number), str(number)) for number in range(6)]


def plan(sizes: list[int]) -> list[Trial]:
    return [
        Trial(WORLD, method, replicate)
        for replicate, size in enumerate(sizes)
        for method in METHODS[:size]
    ]


@given(
    st.lists(st.integers(1, 6), max_size=6),
    st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=30),
)
def test_every_trial_is_taken_once_whoever_asks(
    sizes: list[int], asked: list[tuple[int, bool]]
) -> None:
    trials = plan(sizes)
    queue, taken = TrialQueue(trials), []
    for slot, returned in asked:
        trial = queue.take(slot)
        if trial is not None and returned:
            queue.put_back(slot, trial)
        elif trial is not None:
            taken.append(trial)
    while (trial := queue.take(9)) is not None:
        taken.append(trial)
    assert sorted(one.key for one in taken) == sorted(one.key for one in trials)


def test_a_slot_changes_data_only_when_it_has_to() -> None:
    queue = TrialQueue(plan([6] * 8))
    taken: dict[int, list[str]] = {0: [], 1: []}
    for turn in range(48):
        trial = queue.take(turn % 2)
        assert trial is not None
        taken[turn % 2].append(trial.data_key)
    for keys in taken.values():
        assert sum(before != after for before, after in pairwise(keys)) == 3


def test_the_last_data_are_shared_out() -> None:
    queue = TrialQueue(plan([6]))
    first = [queue.take(0), queue.take(0)]
    shared = [queue.take(1), queue.take(1)]
    rest = [queue.take(0), queue.take(0)]
    assert None not in first + shared + rest
    assert queue.take(0) is None
    assert queue.take(1) is None


def test_one_slot_keeps_the_order_of_the_plan() -> None:
    trials = plan([3, 1, 4])
    queue = TrialQueue(trials)
    assert [queue.take(0) for _ in trials] == trials
