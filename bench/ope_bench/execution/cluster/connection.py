"""The coordinator's line to Dask: send work, hear of it, see who is there.

Whatever happens elsewhere ends up as a message in one queue, so that the coordinator stays a
single thread that may be interrupted anywhere.
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
from ope_bench.requirements import pip_line

__all__ = ["Begun", "Connection", "Done", "Sent", "connected"]

CONNECT_SECONDS = 20
FETCH_SECONDS = 20
LOST_SECONDS = 30.0
"""Seconds without a word of the scheduler after which it counts as gone."""


@dataclass(frozen=True)
class Begun:
    """A worker has begun a trial of a chunk."""

    chunk: int
    index: int


@dataclass(frozen=True)
class Done:
    """A task ended: with a result, or with words for why it has none."""

    tag: Any
    result: Any = None
    problem: str = ""
    refused: bool = False
    """The worker cannot run anything."""


@dataclass(frozen=True)
class Sent:
    """A task on its way."""

    future: Any

    def cancel(self) -> None:
        """Take it back; a worker that runs it gives it up."""
        with contextlib.suppress(Exception):
            self.future.cancel()


class _Call:
    """Unpickles as the result of a call: a scheduler that only passes it on needs no ope-bench."""

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self._said = function, arguments

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self._said


class Connection:
    """A client of a scheduler, and the cluster itself where it is ours.

    Parameters
    ----------
    client : of ``distributed``.
    cluster : to close at the end, None for somebody else's.
    """

    def __init__(self, client: Any, cluster: Any = None) -> None:
        self.messages: queue.SimpleQueue[Begun | Done] = queue.SimpleQueue()
        self.own = cluster is not None
        self._client = client
        self._cluster = cluster
        self._heard = time.monotonic()

    @property
    def address(self) -> str:
        """Of the scheduler."""
        return str(self._client.scheduler.address) if self._client.scheduler else "the scheduler"

    def workers(self) -> set[str]:
        """Addresses of those that are there now.

        Raises
        ------
        UsageError : the scheduler has gone.
        """
        try:
            found = self._client.sync(self._client.scheduler.ncores, callback_timeout=5)
        # A scheduler in trouble shows in many ways: closed streams, timeouts, no scheduler at all.
        except Exception as exc:
            lasting = time.monotonic() - self._heard > LOST_SECONDS
            if self._client.status not in ("closed", "closing") and not lasting:
                raise ConnectionError from exc
            msg = (
                "the Dask scheduler has gone; all that had finished is stored, the same command "
                "goes on from there"
            )
            raise UsageError(msg) from exc
        self._heard = time.monotonic()
        return set(found)

    def listen(self, topic: str) -> None:
        """Hear of the trials that workers begin."""

        def told(event: tuple[float, list[int]]) -> None:
            self.messages.put(Begun(*event[1]))

        self._client.subscribe_topic(topic, told)

    def send(
        self,
        worker: str,
        key: str,
        tag: Any,
        function: Callable[..., Any],
        *arguments: Any,
        gpu: bool = False,
    ) -> Sent:
        """Have a worker call a function; ``Done(tag)`` comes when it has ended."""
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
        """Have a worker's own thread call a quick function, whatever its slots run."""
        call = pickle.dumps(_Call(function, arguments), protocol=pickle.HIGHEST_PROTOCOL)
        with contextlib.suppress(Exception):
            self._client.run(pickle.loads, call, workers=[worker], on_error="ignore")

    def close(self) -> None:
        """Leave the scheduler; a cluster of our own ends."""
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
    # Workers that die, results that die with them, and whatever else Dask has to say.
    except BaseException as exc:
        return Done(tag, problem=f"{type(exc).__name__}: {exc}")


def connected(address: str | None, jobs: int) -> Connection:
    """A line to the scheduler at an address, or to a new cluster of so many workers here.

    Raises
    ------
    UsageError : distributed is not installed, or nobody answers there.
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
            # Trials have a limit of their own, and run in other processes.
            memory_limit=None,
            dashboard_address=None,
            silence_logs=logging.CRITICAL,
            # Whether there is a device the trial finds out, as locally.
            resources={"GPU": 1},
        )
        return Connection(dask.Client(cluster, set_as_default=False), cluster)
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    try:
        # A client that was told nonsense cannot even be closed.
        get_backend(parse_address(address)[0])
        return Connection(dask.Client(address, timeout=CONNECT_SECONDS, set_as_default=False))
    # An address may be wrong in many ways, and each transport complains in its own.
    except Exception as exc:
        reason = str(exc).splitlines()[0] if str(exc) else type(exc).__name__
        msg = f"--address: no Dask scheduler answers at {address}: {reason}"
        raise UsageError(msg) from exc
