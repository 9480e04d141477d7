"""Every installed environment and estimator keeps the contract, by the checks that plugins use."""

from collections.abc import Callable, Iterator

import pytest

from ope_bench.plugins.registry import Kind, registry
from ope_bench.testing import environment_checks, estimator_checks
from readme_tables import quick
from support.fresh_processes import forked_processes

pytestmark = [
    pytest.mark.slow,
    # Libraries' own warnings on tiny data sets are not the subject here.
    pytest.mark.filterwarnings("ignore"),
]


@pytest.fixture(scope="module", autouse=True)
def fresh_processes() -> Iterator[None]:
    with forked_processes(["sklearn.ensemble", "scipy.optimize", "zuko"]):
        yield


def ids(kind: Kind) -> list[str]:
    return [p.id for p in registry().plugins(kind) if p.origin.startswith("ope-bench ")]


def verdict(kind: Kind, plugin_id: str, central: str) -> list[str]:
    """What is wrong; skips the test where the plugin lacks what it needs here."""
    cls = registry().find(kind, plugin_id).cls
    checks: Callable = estimator_checks if kind == "estimator" else environment_checks
    outcomes = {one.name: one for one in checks(quick(cls)).outcomes()}
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
