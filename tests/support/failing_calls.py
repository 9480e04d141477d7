"""Runs commands in children of one process, each with one failing call.

    failing_calls.py LIBRARY FOLDER MOST ALLOCATIONS

Every command runs first without a failure, to count its calls of all kinds. ``MOST`` is the
number of system calls of a kind that fail in turn, ``ALLOCATIONS`` that of allocations, drawn by a
fixed seed; 0 for all. Of a "malloc" that fails the next works again; after one of "memory" none
does.
"""

import contextlib
import ctypes
import io
import json
import os
import random
import shutil
import signal
import sys
import traceback
from collections import Counter
from pathlib import Path

import psutil

from ope_bench.cli.app import invoke
from ope_bench.execution.process_tree import adopt_orphans
from ope_bench.store import Store
from ope_bench.trials.status import Status

if __name__ == "__main__":  # a search for doctests imports it without arguments
    LIBRARY, FOLDER = ctypes.CDLL(sys.argv[1]), Path(sys.argv[2])
    MOST, ALLOCATIONS = map(int, sys.argv[3:])
TRIALS = ["--env", "gaussian[n_samples=5]", "--est", "ipw", "--est", "logging-average"]
TRIALS += ["--replicates", "2"]
RUN = ["run", *TRIALS, "--store", "s.sqlite", "--jobs", "1"]
COMMANDS = {
    "run": ([*RUN, "--executor", "inprocess"], ("write", "fsync", "open")),
    "local": (RUN, ("fork",)),
    "export": (["export", "--to", "t.csv", "--store", "s.sqlite"], ("write", "open", "rename")),
    "merge": (["store", "merge", "s.sqlite", "--store", "m.sqlite"], ("write", "fsync", "open")),
    "baseline": (
        ["baseline", "save", "b.json", *TRIALS, "--store", "s.sqlite"],
        ("write", "open", "rename"),
    ),
    # Stored outcomes of unchanged code stand for trials, so that it needs no worker.
    "gate": (["gate", "g.json", "--reuse", "--store", "s.sqlite"], ("write", "open")),
}
ALLOCATION = ("malloc", "memory")
KINDS = {*ALLOCATION, *(kind for _, kinds in COMMANDS.values() for kind in kinds)}


def in_child(words, folder, kind, at):
    """Exit code, numbers of calls by kind, and what was written to stderr."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code, counts, told = 71, {}, io.StringIO()
        try:
            os.chdir(folder)
            with contextlib.redirect_stderr(told), contextlib.redirect_stdout(io.StringIO()):
                LIBRARY.fail_arm(kind.encode(), str(folder).encode(), at)
                try:
                    code = invoke(words)
                finally:
                    LIBRARY.fail_arm(b"", b"", 0)
                    counts = {one: LIBRARY.fail_count(one.encode()) for one in KINDS}
        except BaseException:
            told.write(traceback.format_exc())
        with os.fdopen(writing, "w") as stream:
            json.dump([code, counts, told.getvalue()], stream)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as stream:
        text = stream.read()
    _, status = os.waitpid(child, 0)
    return json.loads(text) if text else [-status, {}, "it died"]


def rows(path):
    """What is stored, by key, with the moment at which it was."""
    if not path.exists():
        return {}
    with Store.open(path) as store:
        found = {one.key: one.answer for one in store.records()}
        assert store.info().records == len(found), "a trial was stored twice"
        assert store.check().damage == ()
        times = dict(store._db.execute("SELECT key, finished FROM record"))
    return {key: (answer, times[key]) for key, answer in found.items()}


def check(name, kind, at, template, expected):
    """Fail one call; then what had finished stays, and the same command completes.

    Returns the exit code with the failure.
    """
    words = COMMANDS[name][0]
    folder = FOLDER / f"{name}-{kind}-{at}"
    shutil.copytree(template, folder)
    first, _, told = in_child(words, folder, kind, at)
    where = f"{name}, call {at} of {kind}: exit code {first}: {told[-600:]}"
    # Without memory libraries in Rust abort, and NumPy may lose the exception: no Python code can
    # prevent that.
    lost = "SystemError: error return without exception set" in told
    if not (kind in ALLOCATION and (first == -signal.SIGABRT or lost)):
        assert first in (0, 2, 3, 4), where
        assert "Traceback" not in told, where
    _, alive = psutil.wait_procs(psutil.Process().children(), timeout=20)
    assert not alive, f"{where}: processes are left"
    stores = ("s.sqlite", "m.sqlite")
    before = {store: readable(folder / store) for store in stores}
    if "run" in words:
        # A trial for which there was no memory is a stored failure.
        words = [*words, "--retry", "failed"]
    code, _, told = in_child(words, folder, "none", 0)
    assert code == 0, f"{where}\nand again: {code}: {told[-600:]}"
    for store in stores:
        after = rows(folder / store)
        for key, row in before[store].items():
            if row[0][0] != Status.MEMORY:
                assert after[key] == row, f"{where}: a finished trial ran again"
        if store in expected:
            assert {key: row[0] for key, row in after.items()} == expected[store], where
    left = [file.name for file in folder.iterdir() if file.name.startswith(".")]
    assert not left, f"{where}: {left}"
    shutil.rmtree(folder)
    return first


def readable(path):
    """Rows of a store that a failure may have left unfinished."""
    try:
        return rows(path)
    except Exception as exc:
        if "not an ope-bench store" in str(exc):
            return {}
        raise


def main():
    adopt_orphans()
    FOLDER.mkdir(exist_ok=True)
    empty, full = FOLDER / "empty", FOLDER / "full"
    empty.mkdir()
    full.mkdir()
    save = ["baseline", "save", "g.json", *TRIALS, "--store", "s.sqlite"]
    # In this process, so that its children need not import anything.
    os.chdir(full)
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        for words in (COMMANDS["run"][0], save):
            assert invoke(words) == 0, words
        warm = FOLDER / "warm"
        shutil.copytree(full, warm)
        os.chdir(warm)
        for words, _ in COMMANDS.values():
            assert invoke(words) == 0, words
    done = 0
    for name, (words, kinds) in COMMANDS.items():
        template = empty if name in ("run", "local") else full
        clean = FOLDER / f"{name}-clean"
        shutil.copytree(template, clean)
        code, calls, told = in_child(words, clean, "every", 0)
        assert code == 0, told
        expected = {
            store: {key: row[0] for key, row in rows(clean / store).items()}
            for store in ("s.sqlite", "m.sqlite")
            if (clean / store).exists()
        }
        for kind in (*kinds, *ALLOCATION):
            n = calls[kind]
            most = (ALLOCATIONS if kind in ALLOCATION else MOST) or n
            chosen = random.Random(f"{name} {kind}").sample(range(1, n + 1), min(most, n))
            codes = Counter(check(name, kind, at, template, expected) for at in sorted(chosen))
            done += len(chosen)
            ends = ", ".join(f"{count} x {code}" for code, count in sorted(codes.items()))
            told = f"{name} {kind}: {len(chosen)} of {n} calls failed in turn: {ends}"
            print(told, flush=True)
    print(f"{done} failures, all survived")


if __name__ == "__main__":
    main()
