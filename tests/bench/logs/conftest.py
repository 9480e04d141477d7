"""Commands on logs run their estimators in the process of the tests."""

from __future__ import annotations

import pytest

from ope_bench.execution import local
from ope_bench.execution.executors import InProcessExecutor


@pytest.fixture
def workers() -> None:
    """Let the commands of a test start worker processes, as they do for users."""


@pytest.fixture(autouse=True)
def _in_process(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands start no workers: most of a worker's time goes to imports."""
    if "workers" not in request.fixturenames:
        monkeypatch.setattr(local, "LocalExecutor", lambda *_, **limits: in_process(**limits))


def in_process(*, timeout: float | None, memory: int | None) -> InProcessExecutor:
    """Make the executor of a command without limits."""
    assert (timeout, memory) == (None, None), "limits need workers"
    return InProcessExecutor()
