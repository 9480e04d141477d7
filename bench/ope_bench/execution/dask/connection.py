"""Connect to a Dask cluster: check versions, send tasks, receive results, list nodes.

A *node* is what Dask calls a worker; workers of ope-bench run on it, one trial at a time each.
"""

from __future__ import annotations

import contextlib
import json
import logging
import pickle
import platform
import queue
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ope_bench.base.errors import UsageError
from ope_bench.base.files import temporary_folder
from ope_bench.execution import Arithmetic
from ope_bench.execution.machine import arithmetic_variables, machine_facts, run_as_worker
from ope_bench.plugins.registry import Kind, registry
from ope_bench.plugins.requirements import (
    LEARNERS,
    NUMERICAL,
    installed_version,
    is_installed,
    pip_line,
)
from ope_bench.plugins.spec import PluginSpec, digests_of

Question = tuple[Kind, str, Mapping[str, Any]]
"""Kind, reference and parameters of one plugin."""

_MACHINE = (
    *("platform", "cpu", "cores", "memory_bytes", "gpu", "gpu_driver"),
    *("blas", "arithmetic", "blas_block_size"),
)

PATIENCE = 120.0


def questions(specs: Iterable[PluginSpec]) -> list[Question]:
    """Return the questions about the plugins of a plan."""
    return [(spec.kind, spec.reference, dict(spec.params)) for spec in specs]


def findings(asked: Iterable[Question]) -> dict[str, Any]:
    """Return the versions and digests of this process, as plain values."""
    plugins = [_plugin(*question) for question in asked]
    needed = {module for plugin in plugins for module in plugin.get("requires", ())}
    names = [*NUMERICAL, *(LEARNERS[name] for name in sorted(needed & {*LEARNERS}))]
    facts = machine_facts()
    return {
        "python": ".".join(platform.python_version_tuple()[:2]),
        # The part after a plus names the device for which a wheel was built.
        "packages": {
            name: (installed_version(name) or "").partition("+")[0] or None
            for name in ("ope-bench", *names)
        },
        "plugins": plugins,
        "machine": {name: facts.get(name) for name in _MACHINE},
    }


def _plugin(kind: Kind, reference: str, params: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"name": f"{kind} '{reference.rpartition(':')[2]}'"}
    try:
        plugin = registry().find(kind, reference)
        built = plugin.cls(**params)
        requires = sorted({module.partition(".")[0] for module in built.requires})
        code, data = digests_of(built)
        found |= {
            "origin": plugin.origin,
            "code": code,
            "data": data,
            "requires": requires,
            "lacks": [module for module in requires if not is_installed(module)],
        }
    # A plugin may raise anything when built; the worker must report that and continue.
    except Exception as exc:
        found["problem"] = f"{type(exc).__name__}: {exc}"
    return found


def examine_in_new_process(asked: Sequence[Question], arithmetic: Arithmetic) -> dict[str, Any]:
    """Return the findings of a new process, which hold for future workers.

    The node's own process may be older than the last change of the code.
    """
    variables = arithmetic_variables(arithmetic)
    done = run_as_worker(__name__, variables, PATIENCE, json.dumps(asked))
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["the process ended without any output"])[-1]
        raise RuntimeError(last)
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def main() -> None:
    """Read questions from standard input; print findings as the last line of standard output."""
    asked = [(kind, reference, params) for kind, reference, params in json.load(sys.stdin)]
    sys.stdout.write("\n" + json.dumps(findings(asked)) + "\n")


def mismatches(here: Mapping[str, Any], there: Mapping[str, Any]) -> list[str]:
    """Describe the differences by which a worker's numbers may differ.

    >>> ours = {"python": "3.11", "packages": {"numpy": "2.4.1"}, "plugins": []}
    >>> mismatches(ours, {**ours, "packages": {"numpy": "2.3.0"}})
    ['numpy 2.3.0 there, 2.4.1 here']
    """
    told = []
    if here["python"] != there["python"]:
        told.append(f"Python {there['python']} there, {here['python']} here")
    for name, version in here["packages"].items():
        other = there["packages"].get(name)
        if version is not None and other != version:
            other = f"{name} {other} there" if other else f"no {name} there"
            told.append(f"{other}, {version} here")
    other_code = []
    for ours, theirs in zip(here["plugins"], there["plugins"], strict=True):
        name = ours["name"]
        if "problem" in theirs:
            if "problem" not in ours:
                told.append(f"no {name} ({ours['origin']}) there: {theirs['problem']}")
            continue
        if missing := sorted({*theirs["lacks"]} - {*ours.get("lacks", ())} - {*LEARNERS}):
            told.append(f"no module {', '.join(missing)} there, which {name} needs")
        if ours.get("origin") != theirs["origin"]:
            told.append(f"{name} of {theirs['origin']} there, of {ours.get('origin')} here")
        elif ours.get("code") != theirs["code"]:
            other_code.append(name)
        elif ours.get("data") != theirs.get("data"):
            told.append(f"other data files of {name} there")
    if other_code:
        names = list(dict.fromkeys(other_code))
        listed = ", ".join(names)
        if len(names) > 3:
            listed = f"{names[0]} and {len(names) - 1} more plugins"
        told.append(f"other code of {listed} there")
    return list(dict.fromkeys(told))


def remedy(here: Mapping[str, Any], there: Mapping[str, Any] | None) -> str:
    """Return a remedy for the differences, in one line."""
    wanted = [
        f"{name}=={version}"
        for name, version in here["packages"].items()
        if version is not None and (there is None or there["packages"].get(name) != version)
    ]
    dists = {}
    for ours, theirs in zip(here["plugins"], there["plugins"] if there else (), strict=False):
        dist, _, version = ours.get("origin", "").rpartition(" ")
        if dist and (theirs.get("origin") != ours["origin"]) and dist != "ope-bench":
            dists[dist] = version
    wanted += [f"{dist}=={version}" for dist, version in dists.items()]
    if not wanted:
        return "install the same source there and start the worker again"
    return f"on the worker: pip install {' '.join(wanted)}, then start it again"


# Send tasks, receive results, list nodes.

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
    """A trial of a chunk has started."""

    chunk: int
    index: int


@dataclass(frozen=True)
class Done:
    """A task ended, with a result or an error message."""

    tag: Any
    result: Any = None
    problem: str = ""
    refused: bool = False
    """The node cannot run anything."""


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
    folder : closed at the end; the files of a local cluster.
    """

    def __init__(
        self, client: Any, cluster: Any = None, folder: contextlib.ExitStack | None = None
    ) -> None:
        self.messages: queue.SimpleQueue[Begun | Done] = queue.SimpleQueue()
        self.own = cluster is not None
        self._client = client
        self._cluster = cluster
        self._folder = folder
        self._answered_at = time.monotonic()

    @property
    def address(self) -> str:
        """Return the address of the scheduler."""
        return str(self._client.scheduler.address) if self._client.scheduler else "the scheduler"

    def nodes(self) -> set[str]:
        """Return the addresses of the present nodes.

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
        """Subscribe to the trials that nodes start."""

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
    ) -> Callable[[], None]:
        """Call a function on a node; ``Done(tag)`` arrives when it has ended.

        Returns
        -------
        A function that cancels the call; a node that runs it abandons it.
        """
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

        def cancel() -> None:
            with contextlib.suppress(Exception):
                future.cancel()

        return cancel

    def tell(self, worker: str, function: Callable[..., Any], *arguments: Any) -> None:
        """Call a quick function in a node's own thread, independent of its workers."""
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
        if self._folder is not None:
            self._folder.close()


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


def _local_cluster(dask: Any, jobs: int, folder: Path) -> Any:
    return dask.LocalCluster(
        n_workers=jobs,
        threads_per_worker=1,
        # Trials have their own memory limit and run in other processes.
        memory_limit=None,
        dashboard_address=None,
        silence_logs=logging.CRITICAL,
        # The trial checks for its device, as in a local run.
        resources={"GPU": 1},
        local_directory=str(folder),
    )


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
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(temporary_folder("ope-bench-dask"))
            try:
                cluster = _local_cluster(dask, jobs, folder)
                client = dask.Client(cluster, set_as_default=False)
            # A process that dies while the cluster starts: each part raises its own exception.
            except Exception as exc:
                reason = str(exc).splitlines()[0] if str(exc) else type(exc).__name__
                msg = f"--executor dask: the local cluster did not start ({reason}); run it again"
                raise UsageError(msg) from exc
            return Connection(client, cluster, stack.pop_all())
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
