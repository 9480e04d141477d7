"""Every installed environment and estimator keeps the contract, by the checks that plugins use."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import pytest

from ope_bench.plugins.registry import Kind, registry
from ope_bench.testing import checks, environment_checks, estimator_checks
from ope_bench.trials.isolation import thread_limit
from readme_tables import quick
from support.fresh_processes import forked_processes

pytestmark = [
    pytest.mark.slow,
    # Libraries' own warnings on tiny data sets are not the subject here.
    pytest.mark.filterwarnings("ignore"),
]


ROUNDS = {"gbm": {"n_estimators": 5}, "hist-gbm": {"max_iter": 5}}
"""Parameters of learners, by name: five trees are drawn, stored and shared as a hundred are."""

SMALLER = {"saito-mips": {"n_actions": 50}, "ranking": {"n_users": 15}}
"""Parameters of environments whose exact values take long at their defaults."""


@pytest.fixture(scope="module", autouse=True)
def fresh_processes() -> Iterator[None]:
    with (
        forked_processes(["sklearn.ensemble", "scipy.optimize", "zuko"]),
        thread_limit(1),
        pytest.MonkeyPatch.context() as patch,
    ):
        # One limit for all: to look for libraries at each check takes longer than most checks.
        patch.setattr(checks, "thread_limit", lambda threads: nullcontext())
        yield


def ids(kind: Kind) -> list[str]:
    return [p.id for p in registry().plugins(kind) if p.origin.startswith("ope-bench ")]


def small(cls: Any, plugin_id: str) -> Any:
    """Return a plugin that repeats itself less, with the learners of its defaults."""
    plugin, found = quick(cls), inspect.signature(cls).parameters
    rounds = {
        f"{kind}_params": ROUNDS[found[kind].default]
        for kind in ("classifier", "regressor")
        if f"{kind}_params" in found.keys() - cls.check_params and found[kind].default in ROUNDS
    }
    flow = {"flow_params": {"epochs": 2, "transforms": 1}} if "flow_params" in found else {}
    return plugin.set_params(**rounds, **flow, **SMALLER.get(plugin_id, {}))


def verdict(kind: Kind, plugin_id: str, central: str) -> list[str]:
    """What is wrong; skips the test where the plugin lacks what it needs here."""
    cls = registry().find(kind, plugin_id).cls
    kit: Callable = estimator_checks if kind == "estimator" else environment_checks
    outcomes = {one.name: one for one in kit(small(cls, plugin_id)).outcomes()}
    wrong = [f"{one.name}: {one.result}: {one.message}" for one in outcomes.values() if one.bad]
    if not wrong and outcomes[central].result == "skipped":
        pytest.skip(outcomes[central].message)
    return wrong


@pytest.mark.parametrize("plugin_id", ids("estimator"))
def test_estimator_passes_every_check(plugin_id):
    assert verdict("estimator", plugin_id, "check_same_seed_gives_the_same_estimate") == []


@pytest.mark.parametrize("plugin_id", ids("environment"))
def test_environment_passes_every_check(plugin_id):
    assert verdict("environment", plugin_id, "check_same_streams_give_the_same_problem") == []
