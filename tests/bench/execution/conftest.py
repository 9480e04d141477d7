"""The plugin of tests/plugins, as if it were installed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ope_bench.execution import runner
from ope_bench.plugins import registry as registry_module
from ope_bench.plugins.spec import resolve
from ope_bench.trials.record import Trial
from support.paths import ACME


@pytest.fixture(scope="module")
def acme() -> Iterator[Callable[..., Trial]]:
    """Asks for a trial of the plugin's estimators in one of its worlds."""
    specs: dict[str, Any] = {}

    def spec(kind: Any, name: str, params: dict[str, Any]) -> Any:
        asked = f"{kind}{name}{params}"
        if asked not in specs:
            specs[asked] = resolve(kind, name, params)
        return specs[asked]

    def ask(
        estimator: str = "mean",
        replicate: int = 0,
        *,
        world: str = "coin",
        world_params: dict[str, Any] | None = None,
        **params: Any,
    ) -> Trial:
        return Trial(
            spec("environment", f"acme-{world}", world_params or {}),
            spec("estimator", f"acme-{estimator}", params),
            replicate,
        )

    sys.path.insert(0, str(ACME))
    registry_module.registry.cache_clear()
    yield ask
    sys.path.remove(str(ACME))
    registry_module.registry.cache_clear()
    runner._object.cache_clear()
