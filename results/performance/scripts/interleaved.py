"""Two sides of a comparison, measured in turns on one machine, and what is written of it.

A side is a process of some interpreter that imports its libraries once and forks for every
measurement, so that each one starts from the same memory and none pays for imports. The sides
take turns, so that what else the machine does meets both alike; a ratio is taken within a round,
and told as median, lowest and highest over the rounds.

Only the standard library here: the peer's interpreter runs this too.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

__all__ = [
    "Measured",
    "Side",
    "conducted",
    "in_turns",
    "measured",
    "ratios",
    "serve",
    "spread",
    "told",
    "written",
]

T = TypeVar("T")
Job = dict[str, Any]
Figures = dict[str, Any]

LEAST_MEMORY_MB = 1.0
"""A smaller rise of memory counts as this much, so that ratios mean something."""


class Measured:
    """With it, a block's seconds by the wall and of the processor, and its rise of memory.

    Attributes
    ----------
    seconds, cpu_seconds, rise_mb : the last by how much resident memory rose at its peak.
    """

    def __enter__(self) -> Measured:
        # Writing 5 resets the high-water mark, which otherwise remembers what came before.
        Path("/proc/self/clear_refs").write_text("5")
        self._resident = _status("VmRSS")
        self._start = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.perf_counter() - self._start[0]
        self.cpu_seconds = time.process_time() - self._start[1]
        self.rise_mb = (_status("VmHWM") - self._resident) / 1024.0


def _status(key: str) -> int:
    """A figure of this process in kilobytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1])
    msg = f"no {key} in /proc/self/status"
    raise OSError(msg)


def measured(
    block: Callable[[T], float | None],
    prepare: Callable[[], T],
    *,
    seconds: float = 0.3,
    most: int = 100,
) -> Figures:
    """Medians over calls of a block, each on what ``prepare`` gives; memory is the first call's.

    Of more calls than two the first is left out of the times: it finds the caches cold.

    Parameters
    ----------
    block : what is measured; its number is kept as ``value``.
    prepare : not measured.
    seconds, most : no more calls after so long, or so many.
    """
    given = prepare()
    _give_back_freed_memory()
    with Measured() as cost:
        value = block(given)
    walls, cpus = [cost.seconds], [cost.cpu_seconds]
    while sum(walls) < seconds and len(walls) < most:
        given = prepare()
        start = time.perf_counter(), time.process_time()
        block(given)
        cpus.append(time.process_time() - start[1])
        walls.append(time.perf_counter() - start[0])
    warm = slice(1, None) if len(walls) > 2 else slice(None)
    return {
        "seconds": statistics.median(walls[warm]),
        "cpu_seconds": statistics.median(cpus[warm]),
        "rise_mb": cost.rise_mb,
        "calls": len(walls),
        "value": value,
    }


def _give_back_freed_memory() -> None:
    """Let the rise count memory that was freed before; only glibc keeps some and has the call."""
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def serve(prepare: Callable[[Job], T], work: Callable[[T, Job], Figures]) -> None:
    """Answer jobs, one JSON line each, until the end of the input.

    Parameters
    ----------
    prepare : run in this process whenever ``job["data"]`` changes; forks inherit its result.
    work : run in a fork of its own, with at most ``job["memory"]`` bytes more than it has.
    """
    # Libraries print; the answers have the original standard output for themselves.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    last: tuple[Any, T] | None = None
    for line in sys.stdin:
        job = json.loads(line)
        if last is None or last[0] != job["data"]:
            last = None
            last = job["data"], prepare(job)
        print(json.dumps(_forked(last[1], job, work)), file=answers, flush=True)


def _forked(state: T, job: Job, work: Callable[[T, Job], Figures]) -> Figures:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        try:
            if job.get("memory"):
                # Libraries map far more than they use; what is limited is what comes on top.
                limit = _status("VmSize") * 1024 + int(job["memory"])
                resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
            figures = work(state, job)
        except MemoryError:
            figures = {"failed": f"needs more than {job['memory'] / 2**30:.0f} GiB"}
        except Exception as exc:
            figures = {"failed": f"{type(exc).__name__}: {exc}"}
        os.write(writer, json.dumps(figures).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        in_time, _, _ = select.select([pipe], [], [], job["timeout"])
        if not in_time:
            os.kill(pid, signal.SIGKILL)
        told = pipe.read()
    os.waitpid(pid, 0)
    if not in_time:
        return {"failed": f"not done after {job['timeout']:.0f} s"}
    return dict(json.loads(told)) if told else {"failed": "it died without a word"}


class Side:
    """A serving process.

    Parameters
    ----------
    python : the interpreter.
    script : the file to serve from; called with ``--serve NAME``.
    name : of the side.
    """

    def __init__(self, python: str, script: str, name: str) -> None:
        one_thread = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
        self.name = name
        self._process = subprocess.Popen(
            [python, "-W", "ignore", script, "--serve", name],
            env={**os.environ, **one_thread},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, job: Job) -> Figures:
        """What the side says of a job."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            print(json.dumps(job), file=self._process.stdin, flush=True)
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            msg = f"the side {self.name!r} has ended; what it said is above"
            raise RuntimeError(msg)
        return dict(json.loads(answer))

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def in_turns(
    sides: Mapping[str, Callable[[], Figures]], *, seconds: float, most: int
) -> dict[str, list[Figures]]:
    """Rounds in which every side is measured once, in alternating order.

    A side that fails is not asked again.

    Parameters
    ----------
    sides : how to measure each.
    seconds, most : no further round after so long, or so many.
    """
    begun = time.monotonic()
    found: dict[str, list[Figures]] = {name: [] for name in sides}
    order = list(sides)
    for _ in range(most):
        for name in order:
            if not any("failed" in figures for figures in found[name]):
                found[name].append(sides[name]())
        order.reverse()
        if time.monotonic() - begun > seconds:
            break
    return found


def ratios(
    ours: Sequence[Figures], peer: Sequence[Figures], names: Sequence[str]
) -> dict[str, dict[str, float]]:
    """Of each figure, the peer's over ours, within rounds."""
    found = {}
    for name in names:
        least = LEAST_MEMORY_MB if name == "rise_mb" else 0.0
        pairs = [
            (max(a[name], least), max(b[name], least))
            for a, b in zip(ours, peer, strict=False)
            if name in a and name in b
        ]
        # A difference of two times may come out negative on a busy machine: no ratio then.
        pairs = [pair for pair in pairs if min(pair) > 0]
        if pairs:
            found[name] = spread([theirs / own for own, theirs in pairs])
    return found


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, lowest and highest, and how many."""
    return {
        "median": statistics.median(values),
        "low": min(values),
        "high": max(values),
        "rounds": len(values),
    }


def told(ratio: Mapping[str, float] | None) -> str:
    """A ratio with its spread, for a table."""
    if ratio is None:
        return "-"
    return f"{_short(ratio['median'])} ({_short(ratio['low'])} to {_short(ratio['high'])})"


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def conducted(
    report: dict[str, Any], sides: Mapping[str, Side], rows: Callable[[], Iterable[Figures]]
) -> None:
    """Measure the rows of a report, and end the sides."""
    try:
        report["rows"] = list(rows())
    finally:
        for side in sides.values():
            side.close()


def written(path: Path, report: Mapping[str, Any], text: str) -> None:
    """PATH.json with everything, PATH.md to read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".json").write_text(json.dumps(report, indent=1) + "\n")
    path.with_suffix(".md").write_text(text)
