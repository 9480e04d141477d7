"""The coordinator's connection to Dask: send tasks, receive results, list workers.

All events arrive as messages in one queue, so that the coordinator is a single thread that can be
interrupted anywhere.
"""

from __future__ import annotations

import contextlib
import logging
import pickle
import queue
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ope_bench.errors import UsageError
from ope_bench.plugins.requirements import pip_line

__all__ = ["Begun", "Connection", "Done", "Sent", "connect"]

CONNECT_SECONDS = 20
FETCH_SECONDS = 20
NO_CERTIFICATES = (
    "it asks for certificates, and DASK_DISTRIBUTED__COMM__TLS__CA_FILE, ..TLS__CLIENT__CERT and "
    "..TLS__CLIENT__KEY are not set"
)
LOST_SECONDS = 30.0
"""Seconds without a word of the scheduler after which it counts as gone."""


@dataclass(frozen=True)
class Begun:
    """A worker has started a trial of a chunk."""

    chunk: int
    index: int


@dataclass(frozen=True)
class Done:
    """A task ended, with a result or an error message."""

    tag: Any
    result: Any = None
    problem: str = ""
    refused: bool = False
    """The worker cannot run anything."""


@dataclass(frozen=True)
class Sent:
    """A submitted task."""

    future: Any

    def cancel(self) -> None:
        """Cancel the task; a worker that runs it abandons it."""
        with contextlib.suppress(Exception):
            self.future.cancel()


class _Call:
    """Unpickles as a call's result, so that a scheduler needs no ope-bench to forward it."""

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self._said = function, arguments

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self._said


class Connection:
    """A client of a scheduler, and the local cluster if there is one.

    Parameters
    ----------
    client : of ``distributed``.
    cluster : local cluster to close at the end, None for an external one.
    """

    def __init__(self, client: Any, cluster: Any = None) -> None:
        self.messages: queue.SimpleQueue[Begun | Done] = queue.SimpleQueue()
        self.own = cluster is not None
        self._client = client
        self._cluster = cluster
        self._answered_at = time.monotonic()

    @property
    def address(self) -> str:
        """Return the address of the scheduler."""
        return str(self._client.scheduler.address) if self._client.scheduler else "the scheduler"

    def workers(self) -> set[str]:
        """Return the addresses of the present workers.

        Raises
        ------
        UsageError : the scheduler is unreachable.
        """
        try:
            found = self._client.sync(self._client.scheduler.ncores, callback_timeout=5)
        # A failing scheduler raises many exceptions: closed streams, timeouts, no scheduler at
        # all.
        except Exception as exc:
            lasting = time.monotonic() - self._answered_at > LOST_SECONDS
            if self._client.status not in ("closed", "closing") and not lasting:
                raise ConnectionError from exc
            msg = (
                "the Dask scheduler has gone; all that had finished is stored, the same command "
                "goes on from there"
            )
            raise UsageError(msg) from exc
        self._answered_at = time.monotonic()
        return set(found)

    def listen(self, topic: str) -> None:
        """Subscribe to the trials that workers start."""

        def forward(event: tuple[float, list[int]]) -> None:
            self.messages.put(Begun(*event[1]))

        self._client.subscribe_topic(topic, forward)

    def send(
        self,
        worker: str,
        key: str,
        tag: Any,
        function: Callable[..., Any],
        *arguments: Any,
        gpu: bool = False,
    ) -> Sent:
        """Call a function on a worker; ``Done(tag)`` arrives when it has ended."""
        future = self._client.submit(
            pickle.loads,
            pickle.dumps(_Call(function, arguments), protocol=pickle.HIGHEST_PROTOCOL),
            key=key,
            workers=[worker],
            allow_other_workers=False,
            resources={"GPU": 1} if gpu else None,
            pure=False,
        )
        future.add_done_callback(lambda ended: self.messages.put(_done(tag, ended)))
        return Sent(future)

    def tell(self, worker: str, function: Callable[..., Any], *arguments: Any) -> None:
        """Call a quick function in a worker's own thread, independent of its slots."""
        call = pickle.dumps(_Call(function, arguments), protocol=pickle.HIGHEST_PROTOCOL)
        with contextlib.suppress(Exception):
            self._client.run(pickle.loads, call, workers=[worker], on_error="ignore")

    def close(self) -> None:
        """Disconnect from the scheduler; close a local cluster."""
        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        for one in (self._client, self._cluster):
            if one is not None:
                with contextlib.suppress(Exception):
                    one.close(timeout=5)


def _done(tag: Any, future: Any) -> Done:
    if future.status == "cancelled":
        return Done(tag, problem="it was taken back")
    try:
        return Done(tag, future.result(timeout=FETCH_SECONDS))
    except UsageError as exc:
        return Done(tag, problem=str(exc), refused=True)
    except ImportError as exc:
        return Done(tag, problem=f"it cannot load ope-bench: {exc}", refused=True)
    # Workers that die, results that are lost with them, and other errors of Dask.
    except BaseException as exc:
        return Done(tag, problem=f"{type(exc).__name__}: {exc}")


def connect(address: str | None, jobs: int) -> Connection:
    """Connect to the scheduler at an address, or to a new local cluster.

    Raises
    ------
    UsageError : distributed is not installed, or no scheduler answers.
    """
    try:
        import distributed
        from distributed.comm.addressing import parse_address
        from distributed.comm.registry import get_backend
    except ImportError as exc:
        msg = f"--executor dask needs 'distributed', which is missing: {pip_line('distributed')}"
        raise UsageError(msg) from exc
    dask: Any = distributed
    if address is None:
        cluster = dask.LocalCluster(
            n_workers=jobs,
            threads_per_worker=1,
            # Trials have their own memory limit and run in other processes.
            memory_limit=None,
            dashboard_address=None,
            silence_logs=logging.CRITICAL,
            # The trial checks for its device, as in a local run.
            resources={"GPU": 1},
        )
        return Connection(dask.Client(cluster, set_as_default=False), cluster)
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    try:
        # Validate the address first: a Client with a malformed address cannot be closed.
        scheme = parse_address(address)[0]
        get_backend(scheme)
        if scheme == "tls" and not dask.Security().get_connection_args("client")["ssl_context"]:
            # A Client without certificates cannot be closed either.
            raise ValueError(NO_CERTIFICATES)
        return Connection(dask.Client(address, timeout=CONNECT_SECONDS, set_as_default=False))
    # Each transport raises its own exceptions for wrong addresses.
    except Exception as exc:
        reason = str(exc).splitlines()[0] if str(exc) else type(exc).__name__
        msg = f"--address: no Dask scheduler answers at {address}: {reason}"
        raise UsageError(msg) from exc
