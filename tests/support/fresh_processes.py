"""Answers of fresh processes without their imports, for tests of many plugins."""

from __future__ import annotations

import contextlib
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest


@contextlib.contextmanager
def forked_processes(libraries: Sequence[str]) -> Iterator[None]:
    """Answer `in_fresh_process` from forks of a process that has imported libraries only.

    Importing them anew for each plugin takes longer than the checks. The server of the forks has
    run no plugin, so that state is that of a new process.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*libraries])
    with (
        ProcessPoolExecutor(1, mp_context=context, max_tasks_per_child=1) as pool,
        pytest.MonkeyPatch.context() as patch,
    ):

        def in_fresh_process(cls: type, function: Callable[..., str], *arguments: Any) -> str:
            return pool.submit(function, *arguments).result(timeout=300)

        patch.setattr("ope_bench.testing.class_checks.in_fresh_process", in_fresh_process)
        yield
