"""Answers of fresh processes without their imports, for tests of many plugins."""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import pickle
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest

Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


def _all(calls: bytes) -> list[Any]:
    return [function(*arguments, **named) for function, arguments, named in pickle.loads(calls)]


def _pickled(calls: list[Call]) -> bytes:
    # With this protocol, as with joblib's, arrays that are read-only stay so.
    return pickle.dumps(calls, protocol=5)


@contextlib.contextmanager
def forked_processes(
    libraries: Sequence[str],
) -> Iterator[Callable[[list[Call]], list[Any]]]:
    """Answer `in_fresh_process` from forks of a process that has imported libraries only.

    Importing them anew for each plugin takes longer than the checks. The server of the forks has
    run no plugin, so that state is that of a new process. Within the block, what it yields makes
    calls in one such process.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*libraries])
    with (
        ProcessPoolExecutor(1, mp_context=context, max_tasks_per_child=1) as pool,
        pytest.MonkeyPatch.context() as patch,
    ):

        def in_fresh_process(cls: type, function: Callable[..., str], *arguments: Any) -> str:
            return pool.submit(function, *arguments).result(timeout=300)

        for module in ("environment_checks", "estimator_checks"):
            # The package has functions of these names.
            home = importlib.import_module(f"ope_bench.testing.{module}")
            patch.setattr(home, "in_fresh_process", in_fresh_process)
        yield lambda calls: pool.submit(_all, _pickled(calls)).result(timeout=300)
