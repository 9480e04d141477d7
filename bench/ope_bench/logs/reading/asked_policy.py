"""Probabilities of a policy that is given as code, asked for in chunks and checked.

A policy of a file is asked in a process that can be killed; it runs `main`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from ope_bench.contracts.arrays import FloatArray
from ope_bench.errors import OpeBenchError, UsageError
from ope_bench.execution.child_python import import_path, python_command
from ope_bench.execution.descendants import process_tree
from ope_bench.files import temporary_folder
from ope_bench.units import format_duration

__all__ = ["LONGEST", "ROUNDING", "ask_file", "ask_function"]

LONGEST = 600.0
"""Seconds after which a policy that is asked is ended."""

MOST_PROBABILITIES = 200_000_000
AT_ONCE = 1 << 18
ROUNDING = 1e-4
"""By which the probabilities of a row may miss one; then they are divided by their sum."""

Contexts = Mapping[str, np.ndarray[Any, Any]]


def ask_function(
    predict: Callable[[Any], Any], context: Contexts, n_actions: int, name: str
) -> sparse.csr_array:
    """Ask a function of contexts for its probabilities: (n, n_actions).

    Parameters
    ----------
    predict : maps a mapping of column names to arrays (k,) to probabilities (k, n_actions).
    context : the columns of the whole log, before encoding.
    n_actions : number of actions.
    name : name of the policy in messages.

    Raises
    ------
    UsageError : the function raises, or returns something else.
    """

    def chunk(part: slice) -> Any:
        return predict({column: values[part] for column, values in context.items()})

    return _collect(chunk, _length(context), n_actions, name)


def ask_file(
    reference: str,
    context: Contexts,
    actions: Sequence[str],
    *,
    timeout: float = LONGEST,
    name: str,
) -> sparse.csr_array:
    """Ask the policy of a file, in a process that is ended after ``timeout``: (n, n_actions).

    Parameters
    ----------
    reference : ``FILE.py:NAME`` of an object with ``probability(context, action)``.
    context : the columns of the whole log, before encoding.
    actions : names of all actions.
    timeout : seconds.
    name : name of the policy in messages.

    Raises
    ------
    UsageError : the file cannot be loaded, the policy raises, hangs, or returns something else.
    """
    _check_cost(_length(context), len(actions), name)
    with temporary_folder("ope-bench-policy") as at:
        np.savez(at / "context.npz", **dict(context))  # type: ignore[arg-type]
        (at / "task.json").write_text(
            json.dumps({"actions": list(actions), "name": name, "columns": list(context)})
        )
        command = [*python_command(__name__), str(at), reference, str(os.getpid())]
        try:
            returncode, output = _run(command, timeout)
        except subprocess.TimeoutExpired as exc:
            msg = (
                f"{name}: {reference} did not answer within {format_duration(timeout)}; give "
                "`table:` instead, or a faster policy"
            )
            raise UsageError(msg) from exc
        error = at / "error.txt"
        if error.exists():
            raise UsageError(error.read_text())
        if returncode != 0:
            last = (output.decode(errors="replace").strip().splitlines() or [""])[-1]
            told = f": {last}" if last else ""
            msg = (
                f"{name}: {reference} ended its process with code {returncode}{told}; a "
                "policy returns probabilities and leaves the process alone"
            )
            raise UsageError(msg)
        return sparse.csr_array(sparse.load_npz(at / "matrix.npz"))


def _run(command: Sequence[str], timeout: float) -> tuple[int, bytes]:
    """Run a command; return its exit code and what it wrote to standard error.

    The command has a process group of its own, which is killed where it does not end in time, or
    where an exception, such as that of Ctrl-C, ends the wait.
    """
    with subprocess.Popen(  # noqa: S603  the user's own policy
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, **import_path()},
        start_new_session=True,
    ) as process:
        try:
            output = process.communicate(timeout=timeout)[1]
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    return process.returncode, output


def _length(context: Contexts) -> int:
    return len(next(iter(context.values())))


def _check_cost(n: int, n_actions: int, name: str) -> None:
    if n * n_actions > MOST_PROBABILITIES:
        msg = (
            f"{name}: {n:,} rows times {n_actions:,} actions are {n * n_actions:,} probabilities, "
            f"more than {MOST_PROBABILITIES:,}; give `table:` with the actions of positive "
            "probability"
        )
        raise UsageError(msg)


def _collect(chunk: Callable[[slice], Any], n: int, n_actions: int, name: str) -> sparse.csr_array:
    _check_cost(n, n_actions, name)
    parts = []
    step = max(1, AT_ONCE // n_actions)
    for start in range(0, n, step):
        part = slice(start, min(start + step, n))
        try:
            answer = np.asarray(chunk(part), dtype=np.float64)
        except OpeBenchError:
            raise
        # A user's function may raise anything.
        except Exception as exc:
            msg = f"{name}: the policy raised {type(exc).__name__}: {exc}; correct it"
            raise UsageError(msg) from exc
        parts.append(sparse.csr_array(_checked(answer, part, n_actions, name)))
    return sparse.csr_array(sparse.vstack(parts, format="csr"))


def _checked(table: FloatArray, part: slice, n_actions: int, name: str) -> FloatArray:
    rows = part.stop - part.start
    if table.shape != (rows, n_actions):
        msg = f"{name}: the policy returned shape {table.shape}; expected ({rows}, {n_actions})"
        raise UsageError(msg)
    wrong = ~((table >= 0) & (table <= 1 + ROUNDING)).all(axis=1)
    if wrong.any():
        row = int(np.argmax(wrong))
        value = table[row][~((table[row] >= 0) & (table[row] <= 1 + ROUNDING))][0]
        msg = f"{name}: row {part.start + row:,}: {value:g} is not a probability"
        raise UsageError(msg)
    total = table.sum(axis=1)
    if (np.abs(total - 1) > ROUNDING).any():
        row = int(np.argmax(np.abs(total - 1) > ROUNDING))
        msg = (
            f"{name}: row {part.start + row:,}: the probabilities of all actions sum to "
            f"{total[row]:g}; they must sum to 1"
        )
        raise UsageError(msg)
    return table


def _load(reference: str) -> Any:
    path, _, name = reference.rpartition(":")
    file = Path(path).resolve()
    # At the end, so that no file beside the policy replaces a module of the standard library.
    sys.path.append(str(file.parent))
    spec = importlib.util.spec_from_file_location("ope_bench_policy", file)
    if spec is None or spec.loader is None:
        msg = f"{path} is not a Python file"
        raise UsageError(msg)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    policy = getattr(module, name)
    return policy() if isinstance(policy, type) else policy


def _answer(folder: Path, reference: str) -> None:
    task = json.loads((folder / "task.json").read_text())
    name, words = f"{task['name']}: {reference}", np.array(task["actions"])
    with np.load(folder / "context.npz") as held:
        context = {column: held[column] for column in task["columns"]}
    try:
        policy = _load(reference)
        probability = policy.probability
    except BaseException as exc:
        msg = f"{name} cannot be used: {type(exc).__name__}: {exc}; correct it"
        raise UsageError(msg) from exc
    try:
        numbers = words.astype(np.float64)
        words = numbers.astype(np.int64) if (numbers == np.round(numbers)).all() else numbers
    except ValueError:
        pass

    def chunk(part: slice) -> Any:
        rows = part.stop - part.start
        pairs = {c: np.repeat(values[part], len(words)) for c, values in context.items()}
        answer = np.asarray(probability(pairs, np.tile(words, rows)), dtype=np.float64)
        if answer.shape != (rows * len(words),):
            msg = (
                f"{name}: probability() returned shape {answer.shape} for {rows * len(words)} "
                f"pairs; expected ({rows * len(words)},)"
            )
            raise UsageError(msg)
        return answer.reshape(rows, len(words))

    matrix = _collect(chunk, _length(context), len(words), name)
    sparse.save_npz(folder / "matrix.npz", sparse.csr_matrix(matrix), compressed=False)


def main() -> None:
    """Ask the policy of a file; write its probabilities, or why there are none, into a folder.

    The arguments of the command: FOLDER FILE.py:NAME PARENT. The last is the number of the process
    that waits; on Linux this one ends with it.
    """
    folder, reference, parent = sys.argv[1:]
    process_tree.die_with(int(parent))
    try:
        _answer(Path(folder), reference)
    except UsageError as exc:
        (Path(folder) / "error.txt").write_text(str(exc))
