"""Probabilities of a policy that is given as code, computed in chunks and checked.

A policy of a file runs in a process of its own that can be killed; that process runs `main`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from ope_bench.base.errors import OpeBenchError, UsageError, did_you_mean
from ope_bench.base.files import temporary_folder
from ope_bench.base.units import format_duration
from ope_bench.contracts.arrays import FloatArray
from ope_bench.execution import process_tree
from ope_bench.execution.keeper import import_path, python_command
from ope_bench.reader.library import library
from ope_bench.reader.text import as_names, finite_number, name_of, spelled_as

LONGEST = 600.0
"""Seconds after which the process of a policy is ended."""

MOST_PROBABILITIES = 200_000_000
_AT_ONCE = 1 << 18
Contexts = Mapping[str, np.ndarray[Any, Any]]


def policy_of_function(
    predict: Callable[[Any], Any], context: Contexts, n_actions: int, name: str
) -> sparse.csr_array:
    """Compute the probabilities of a function of contexts: (n, n_actions).

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

    return _collect(
        lambda part: predict({column: values[part] for column, values in context.items()}),
        _length(context),
        n_actions,
        name,
    )


def policy_of_pairs(
    probability: Callable[[Any, Any], Any], context: Contexts, actions: Sequence[str], name: str
) -> sparse.csr_array:
    """Compute the probabilities of a function of contexts and actions: (n, n_actions).

    Parameters
    ----------
    probability : maps a mapping of column names to arrays (k,), and actions (k,), to their
        probabilities (k,).
    context : the columns of the whole log, before encoding.
    actions : names of all actions; numbers are given as numbers.
    name : name of the policy in messages.

    Raises
    ------
    UsageError : the function raises, or returns something else.
    """
    words = values_of(actions)

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

    return _collect(chunk, _length(context), len(words), name)


def values_of(actions: Sequence[str]) -> np.ndarray[Any, Any]:
    """Return names as numbers or truth values if they are the spelling of these, else as texts.

    >>> [values_of(one).tolist() for one in (["1", "2"], ["False", "True"], ["007", "7"])]
    [[1, 2], [False, True], ['007', '7']]
    """
    if {*actions} <= {"False", "True"}:
        return np.array([one == "True" for one in actions])
    integers = as_names(library().Series(actions, dtype=library().String))
    if integers.dtype.is_integer():
        return np.array(integers.to_list())
    numbers = [finite_number(one) for one in actions]
    shortest = all(
        str(one).removesuffix(".0") == of.removesuffix(".0")
        for one, of in zip(numbers, actions, strict=True)
    )
    return np.array(actions if None in numbers or not shortest else numbers)


def policy_of_object(
    policy: Any, context: Contexts, actions: Sequence[str], name: str
) -> sparse.csr_array:
    """Compute the probabilities of a policy object, a classifier or a function: (n, n_actions).

    Parameters
    ----------
    policy : has ``probability(context, action)``, or ``predict_proba`` and ``classes_``, or is a
        function of contexts.
    context, actions, name : as for `policy_of_pairs`.
    """
    if hasattr(policy, "predict_proba"):
        return _policy_of_classifier(policy, context, actions, name)
    if hasattr(policy, "predict") and not callable(getattr(policy, "probability", None)):
        what = f"{type(policy).__name__} gives no probabilities; fit one with `predict_proba`"
        msg = f"{name}: {what} (`probability=True` of an SVC), or give a table"
        raise UsageError(msg)
    if hasattr(policy, "probability"):
        return policy_of_pairs(policy.probability, context, actions, name)

    def in_order(part: Any) -> Any:
        answer = policy(part)
        labels = [name_of(one) for one in getattr(answer, "columns", ())]
        columns = spelled_as(labels, actions)
        if not labels:
            return answer
        if sorted(columns) != sorted(actions):
            if labels == [str(k) for k in range(len(actions))]:
                return answer
            msg = f"{name}: its columns {', '.join(columns)} are not the actions "
            msg += f"{', '.join(actions)}; name them so, or return an array"
            raise UsageError(msg)
        return np.asarray(answer)[:, [columns.index(one) for one in actions]]

    return policy_of_function(in_order, context, len(actions), name)


def _policy_of_classifier(
    classifier: Any, context: Contexts, actions: Sequence[str], name: str
) -> sparse.csr_array:
    """Compute the probabilities of a classifier of scikit-learn: (n, n_actions).

    It gets the raw columns: a frame of pandas where it was fitted on names and pandas is there,
    else an array in the order of its names, or of the context.
    """
    place = {action: k for k, action in enumerate(actions)}
    if not hasattr(classifier, "classes_"):
        msg = f"{name}: {type(classifier).__name__} has no `classes_`; fit it first"
        raise UsageError(msg)
    labels = np.asarray(classifier.classes_).tolist()
    classes = spelled_as(map(name_of, labels), actions)
    unknown = [one for one in classes if one not in place]
    if unknown:
        msg = (
            f"{name}: its class '{unknown[0]}' is no action of the log"
            f"{did_you_mean(unknown[0], actions)}; name all by `actions`"
        )
        raise UsageError(msg)
    fitted = getattr(classifier, "feature_names_in_", None)
    columns = list(context) if fitted is None else [str(one) for one in fitted]
    lacking = [one for one in columns if one not in context]
    if lacking:
        msg = f"{name}: it was fitted on '{lacking[0]}', which is no context column; add it"
        raise UsageError(msg)

    def chunk(part: Contexts) -> FloatArray:
        raw: Any = None
        if fitted is not None:
            with contextlib.suppress(ImportError):
                import pandas as pd

                # Else None among texts would become NaN.
                kinds = {one: object if part[one].dtype == object else None for one in columns}
                raw = {one: pd.Series(list(part[one]), dtype=kinds[one]) for one in columns}
                raw = pd.DataFrame(raw)
        if raw is None:
            # Its own order of columns is that of the names, which an array has not.
            given = [part[one] for one in columns]
            raw = np.column_stack(
                [v if v.dtype.kind in "biuf" else v.astype(object) for v in given]
            )
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                answer = np.asarray(classifier.predict_proba(raw), dtype=np.float64)
        except (TypeError, ValueError) as exc:
            msg = (
                f"{name}: {type(classifier).__name__} takes the context columns "
                f"{', '.join(columns)} not as they are ({str(exc).splitlines()[0]}); put the "
                "encoding into its pipeline (OneHotEncoder for words, an imputer for missing "
                "values), or give a function of contexts"
            )
            raise UsageError(msg) from exc
        found = np.zeros((len(answer), len(actions)))
        found[:, [place[one] for one in classes]] = answer
        return found

    return policy_of_function(chunk, context, len(actions), name)


def policy_of_file(
    reference: str,
    context: Contexts,
    actions: Sequence[str],
    *,
    timeout: float = LONGEST,
    name: str,
) -> sparse.csr_array:
    """Compute the probabilities of a file's policy in a process with a limit: (n, n_actions).

    Parameters
    ----------
    reference : ``FILE.py:NAME`` of an object with ``probability(context, action)``.
    context : the columns of the whole log, before encoding.
    actions : names of all actions.
    timeout : seconds after which the process is killed.
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
        with subprocess.Popen(  # noqa: S603  the user's own policy
            [*python_command(__name__), str(at), reference, str(os.getpid())],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            # The current folder, "" in notebooks, may be the policy's: it replaces no module.
            env={**os.environ, **import_path(sorted(sys.path, key=lambda one: one == ""))},
            start_new_session=True,
        ) as process:
            try:
                output = process.communicate(timeout=timeout)[1]
            except BaseException as exc:
                # Its group ends with it, also where Ctrl-C ends the wait.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                if not isinstance(exc, subprocess.TimeoutExpired):
                    raise
                msg = (
                    f"{name}: {reference} did not answer within {format_duration(timeout)}; give "
                    "`table:` instead, or a faster policy"
                )
                raise UsageError(msg) from exc
        error = at / "error.txt"
        if error.exists():
            raise UsageError(error.read_text())
        if process.returncode != 0:
            lines = output.decode(errors="replace").strip().splitlines()
            reason = f": {lines[-1]}" if lines else ""
            msg = (
                f"{name}: {reference} ended its process with code {process.returncode}{reason}; a "
                "policy returns probabilities and leaves the process alone"
            )
            raise UsageError(msg)
        return sparse.csr_array(sparse.load_npz(at / "matrix.npz"))


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
    """Return the probabilities of all rows as the policy gives them: (n, n_actions)."""
    _check_cost(n, n_actions, name)
    parts = []
    step = max(1, _AT_ONCE // n_actions)
    for start in range(0, n, step):
        part = slice(start, min(start + step, n))
        try:
            table = np.asarray(chunk(part), dtype=np.float64)
            table = table[:, :, 0] if table.ndim == 3 and table.shape[2] == 1 else table
        except OpeBenchError:
            raise
        # A user's function may raise anything.
        except Exception as exc:
            msg = f"{name}: the policy raised {type(exc).__name__}: {exc}; correct it"
            raise UsageError(msg) from exc
        expected = (part.stop - start, n_actions)
        if table.shape != expected:
            msg = f"{name}: the policy returned shape {table.shape}; expected {expected}"
            raise UsageError(msg)
        parts.append(sparse.csr_array(table))
    return sparse.csr_array(sparse.vstack(parts, format="csr"))


def _compute(folder: Path, reference: str) -> None:
    """Compute the probabilities of the task in a folder, and write them there."""
    task = json.loads((folder / "task.json").read_text())
    name = f"{task['name']}: {reference}"
    actions = task["actions"]
    # Written by the process that waits: texts beside what is missing are objects.
    with np.load(folder / "context.npz", allow_pickle=True) as held:
        context = {column: held[column] for column in task["columns"]}
    matrix = policy_of_object(load_policy(reference, name), context, actions, name)
    sparse.save_npz(folder / "matrix.npz", sparse.csr_matrix(matrix), compressed=False)


@cache
def load_policy(reference: str, name: str) -> Any:
    """Return the object of ``FILE.py:NAME``, an instance where it is a class.

    Raises
    ------
    UsageError : the file cannot be loaded.
    """
    path, _, attribute = reference.rpartition(":")
    file = Path(path).resolve()
    # At the end, so that no file beside the policy replaces a module of the standard library.
    sys.path.append(str(file.parent))
    try:
        spec = importlib.util.spec_from_file_location("ope_bench_policy", file)
        if spec is None or spec.loader is None:
            msg = f"{path} is not a Python file"
            raise UsageError(msg)
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        policy = getattr(module, attribute)
        found = policy() if isinstance(policy, type) else policy
        if not callable(found) and not hasattr(found, "predict_proba"):
            _ = found.probability
    # The user's file may raise anything, SystemExit included.
    except BaseException as exc:
        msg = f"{name} cannot be used: {type(exc).__name__}: {exc}; correct it"
        raise UsageError(msg) from exc
    return found


def main() -> None:
    """Write the probabilities of a file's policy, or why there are none, into a folder.

    The arguments of the command: FOLDER FILE.py:NAME PARENT. The last is the number of the process
    that waits; on Linux this one ends with it.
    """
    folder, reference, parent = sys.argv[1:]
    process_tree.die_with(int(parent))
    try:
        _compute(Path(folder), reference)
    except UsageError as exc:
        (Path(folder) / "error.txt").write_text(str(exc))
