"""Estimate policies on a parquet data set that is larger than memory, from sums over batches."""

from __future__ import annotations

import importlib
import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from pathlib import Path
from typing import Any

import numpy as np

from ope_bench.base.errors import UsageError
from ope_bench.base.units import format_duration, format_size
from ope_bench.contracts.arrays import IntArray
from ope_bench.contracts.random import DataSeed
from ope_bench.contracts.view import nuisance_key
from ope_bench.logs import estimation, problem
from ope_bench.logs.asked_policy import load_policy
from ope_bench.logs.checks import CONFOUNDING
from ope_bench.logs.loading import load_log
from ope_bench.logs.log_data import LogData, LogSpec
from ope_bench.logs.result import Difference, EstimateRow, Estimates, TargetEstimates
from ope_bench.logs.source import word_columns
from ope_bench.logs.target_policy import TargetPolicy
from ope_bench.plugins.registry import registry
from ope_bench.plugins.requirements import import_all
from ope_bench.plugins.spec import PluginSpec, distinct_labels
from ope_bench.suites.yaml_document import load_file
from ope_bench.tables import (
    DataFileError,
    StringColumn,
    Table,
    column_indices,
    extend_words,
    parquet_floats,
)
from ope_bench.trials.isolation import thread_limit
from ope_bench.trials.record import Trial, TrialRecord
from ope_bench.trials.status import Status
from ope_bench.trials.trial import build

BATCH = 1 << 16
"""Rows at a time."""

PART = 1 << 20
"""Rows of a task, about: whole row groups of the files, or batches of a large one."""

PILOT = 200_000
"""Rows on which the checks run, and from which the first pass starts."""

Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
"""Applies a function to every part, in any order of work; results in the order of the parts."""


@dataclass(frozen=True)
class _Streams:
    """The random streams of shared fits, as of a trial in memory."""

    seed: DataSeed

    def __call__(self, spec: Any) -> np.random.Generator:
        return self.seed.nuisance(nuisance_key(spec, "cpu"))


@dataclass(frozen=True, eq=False)
class Part:
    """Rows of one task.

    Parameters
    ----------
    groups : file, number and first row of each row group that has some of them.
    first, last : the rows; the last one is not among them.
    starts : (units,), the rows at which a unit begins; None where each row is one.
    unit : number of the first unit.
    weight : sum of the row weights before.
    """

    groups: tuple[tuple[Path, int, int], ...]
    first: int
    last: int
    starts: IntArray | None = None
    unit: int = 0
    weight: float = 0.0


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a parquet file, or of a folder of such files in the order of their names.

    Parameters
    ----------
    spec : of the log.
    words : the distinct words of every column of words.
    """

    spec: LogSpec
    words: Mapping[str, list[str]] = field(default_factory=dict)

    def columns(self, *others: str | None) -> tuple[list[str], list[str]]:
        """Return the columns of numbers, and those of words; others are words."""
        spec, words = self.spec, [*(self.spec.categorical or ()), self.spec.action]
        numbers = [one for one in spec.context if one not in words]
        numbers += [one for one in (spec.reward, spec.propensity, spec.weight) if one is not None]
        numbers += [one.value for one in spec.targets.values() if one.form == "probability"]
        words += [one for one in others if one is not None]
        return list(dict.fromkeys(numbers)), list(dict.fromkeys(words))

    def tables(self, part: Part, columns: Iterable[str]) -> Iterator[tuple[int, Any]]:
        """Yield the rows of a part, all of a unit together, each time with their first row."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        waiting, begin, columns = None, part.first, list(columns)
        for path, number, at in part.groups:
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(BATCH, row_groups=[number], columns=columns):
                    low, high = max(part.first - at, 0), min(part.last - at, len(batch))
                    at += len(batch)
                    if low >= high:
                        continue
                    table = pa.Table.from_batches([batch.slice(low, high - low)])
                    table = table if waiting is None else pa.concat_tables([waiting, table])
                    cut = begin + len(table)
                    if part.starts is not None and cut < part.last:
                        cut = int(part.starts[np.searchsorted(part.starts, cut, "right") - 1])
                    if cut > begin:
                        yield begin, table.slice(0, cut - begin)
                    waiting, begin = table.slice(cut - begin), cut

    def log(self, rows: Any, first: int, spec: LogSpec | None = None) -> LogData:
        """Return rows as a log whose words are coded as those of the whole data set."""
        spec = replace(self.spec, unit=None, time=None, items=None) if spec is None else spec
        path, values = Path(self.spec.table), {}
        numbers, words = self.columns(spec.unit, spec.time)
        for name in numbers:
            column = rows.column(name).combine_chunks()
            values[name] = parquet_floats(path, column, name, first, optional=False)
        coded = {}
        for name in words:
            coded[name] = StringColumn()
            known = self.words.get(name, [])
            coded[name].extend_coded(np.zeros(0, dtype=np.int64), known)
            extend_words(coded[name], rows.column(name).combine_chunks())
        table = Table(path, lambda row: f"row {first + row + 1:,}", values, coded)
        return load_log(spec, table=table)


def estimate_stream(
    spec: LogSpec,
    estimators: Any = None,
    *,
    level: float = 0.95,
    interval: str = "asymptotic",
    seed: int = 0,
    jobs: int = 1,
    timeout: float | None = None,
    memory: int | None = None,
    map_parts: Map | None = None,
) -> Estimates:
    """Evaluate policies on a parquet data set in passes over its rows; see `estimate`.

    Parameters
    ----------
    spec : of the log; ``table`` is a parquet file or a folder of them, and policies have the forms
        ``probability`` or ``policy``. Rows of a unit follow one another.
    estimators, level, interval, seed : as for `estimate`; reward models are ridge regressions.
    jobs : number of threads.
    timeout, memory : seconds and bytes after which the passes end without values.
    map_parts : runs tasks in place of threads, for example on a cluster.

    Raises
    ------
    UsageError : a mistake in the data or its description, or what batches do not offer.
    """
    listed = load_file(Path(__file__).with_name("estimators.yaml")).value["streamed"]
    home = importlib.import_module(listed["home"])
    given = estimation.estimator_pairs(listed["estimators"] if estimators is None else estimators)
    begun, limits = time.monotonic(), (time.time() + (timeout or math.inf), memory)
    message, status = "", Status.OK
    answers: Any = []
    with ThreadPoolExecutor(max(jobs, 1)) as pool:
        run: Map = pool.map if map_parts is None else map_parts
        rows, parts, facts, pilot = _scan(spec, home, run, seed)
        kind: Any = interval
        pairs, lacks = zip(
            *(estimation.with_interval(one, pilot, kind, level) for one in given), strict=True
        )
        objects = [one or build(text) for text, one in pairs]
        whole = any(one is not None for one in facts.pilot.tables)
        reasons = [home.lacks(one, whole) for one in objects]
        able = [one for one, reason in zip(objects, reasons, strict=True) if not reason]
        sums = home.StreamedSums(able, facts)
        try:
            done = not able
            # Threads of linear algebra would only wait for those of the parts.
            with thread_limit(1):
                while not done:
                    task = partial(sums_of_part, rows, sums, listed["home"], limits)
                    done = sums.advance(reduce(home.added, run(task, parts)))
            answers = sums.answers() if able else [[] for _ in spec.targets]
        except (TimeoutError, MemoryError) as exc:
            message = str(exc)
            status = Status.TIMEOUT if isinstance(exc, TimeoutError) else Status.MEMORY
            answers = [[None] * len(able) for _ in spec.targets]
    seconds = time.monotonic() - begun
    labels = distinct_labels([one for one, _ in pairs])
    average = sums.average if status is Status.OK and able else None
    targets: list[TargetEstimates] = []
    found: dict[str, list[Any]] = {}
    advice = []
    for number, name in enumerate(spec.targets):
        remaining = iter(answers[number])
        found[name] = [None if reason else next(remaining) for reason in reasons]
        table: list[EstimateRow] = []
        for (text, _), estimator, label, reason, lack, one in zip(
            pairs, objects, labels, reasons, lacks, found[name], strict=True
        ):
            how = Status.UNAVAILABLE if reason else status
            why = reason or message
            if how is Status.OK and one is None:
                how, why = Status.POSITIVITY, "all weights are 0, or probabilities are missing"
            record = TrialRecord(
                _trial(text, seed),
                "",
                how,
                access=tuple(estimator.access.words()),
                error_message=why or None,
                logging_average=average,
                fit_seconds=None if one is None else seconds,
                **({} if one is None else one.fields(facts.n)),
            )
            table.append(
                estimation.estimate_row(
                    record, label, level, kind, units=facts.n_units, missing=lack
                )
            )
        mass = sums.unsupported_mass(number) if average is not None else None
        targets.append(TargetEstimates(name=name, unsupported_mass=mass, rows=tuple(table)))
        several = f"{name}: " if len(spec.targets) > 1 else ""
        advice += [several + one for one in estimation.contradictions(table)]
        if average is not None:
            mean, error = sums.mean_weight(number)
            low, high = problem.normal_interval(mean, error, 0.95)
            advice.append(
                f"{several}the weights of all rows average {mean:.4f} (1 is right; 95 % interval "
                f"{low or mean:.4f} to {high or mean:.4f}) and are worth "
                f"{sums.effective_units(number):,.0f} units"
            )
    differences = []
    for q, p in itertools.combinations(range(len(targets)), 2):
        names = targets[p].name, targets[q].name
        for (text, _), label, one, other in zip(
            pairs, labels, found[names[0]], found[names[1]], strict=True
        ):
            if one is None or other is None:
                continue
            value, error = sums.difference(one, other, p, q)
            size = max(abs(one.value), abs(other.value))
            value, error = problem.without_rounding(value, error, size)
            ends: tuple[float | None, float | None] = None, None
            if kind == "asymptotic":
                ends = problem.normal_interval(value, error, level, facts.n_units)
            differences.append(
                Difference(
                    estimator=text.id,
                    label=label,
                    target=names[0],
                    versus=names[1],
                    difference=value,
                    low=ends[0],
                    high=ends[1],
                )
            )
    notes = (
        f"{facts.n:,} rows in batches, {format_duration(seconds)}; models are ridge regressions",
        f"on {pilot.n:,} rows from the whole data set: {estimation.looks(pilot)}",
        *advice,
        *pilot.notes,
        CONFOUNDING,
    )
    return Estimates(
        log={**pilot.facts(), "rows": facts.n, "units": facts.n_units},
        logging_average=math.nan if average is None else average,
        targets=tuple(targets),
        differences=tuple(differences),
        notes=notes,
        source=pilot,
    )


def _trial(spec: PluginSpec, seed: int) -> Trial:
    """Return the trial in memory whose random streams are those of the passes."""
    cls = f"{problem.OwnLog.__module__}:{problem.OwnLog.__qualname__}"
    environment = PluginSpec("environment", cls, estimation.ENVIRONMENT, {}, origin="ope_bench")
    return Trial(environment, spec, 0, seed=seed)


def sums_of_part(
    rows: Rows, sums: Any, home: str, limits: tuple[float, int | None], part: Part
) -> Any:
    """Return a pass's sums over the batches of one part: the task that a cluster may run."""
    module = importlib.import_module(home)
    total: dict[str, Any] = {}
    unit, weight = part.unit, part.weight
    for first, table in rows.tables(part, itertools.chain(*rows.columns())):
        _check_limits(*limits)
        log = rows.log(table, first)
        starts = None
        if part.starts is not None:
            begin = unit - part.unit
            end = int(np.searchsorted(part.starts, first + log.n))
            starts = part.starts[begin:end] - first
        batch = _batch(module, log, first=first, starts=starts, unit=unit, weight=weight)
        total = module.added(total, sums.sums(batch))
        unit += log.n if starts is None else len(starts)
        weight += 0.0 if log.weight is None else float(log.weight.sum())
    return total


def _batch(
    home: Any,
    log: LogData,
    *,
    first: int = 0,
    starts: IntArray | None = None,
    unit: int = 0,
    weight: float = 0.0,
) -> Any:
    at = np.arange(log.n)
    tables = [None if one.matrix is None else one.matrix.toarray() for one in log.targets.values()]
    logged = [
        one.probability if table is None else table[at, log.action]
        for one, table in zip(log.targets.values(), tables, strict=True)
    ]
    return home.Batch(
        context=log.context,
        action=log.action,
        reward=log.reward,
        propensity=log.propensity,
        row_weight=log.weight,
        logged=logged,
        tables=tables,
        first=first,
        weight_before=weight,
        starts=starts,
        first_unit=unit,
    )


def _check_limits(end: float, memory: int | None) -> None:
    import psutil

    if time.time() > end:
        msg = "the passes over the rows did not end within --timeout; give it more time or --jobs"
        raise TimeoutError(msg)
    used = psutil.Process().memory_info().rss if memory is not None else 0
    if memory is not None and used > memory:
        msg = f"the passes over the rows took {format_size(used)}, more than --memory"
        raise MemoryError(msg)


# What is known before the passes.


def _scan(spec: LogSpec, home: Any, run: Map, seed: int) -> tuple[Rows, list[Part], Any, LogData]:
    """Return rows, tasks, facts and the pilot's log, from a look at columns of words and units."""
    spec, groups = _prepared(spec)
    n = groups[-1][2] + groups[-1][3]
    rows = Rows(spec)
    whole = [Part((one[:3],), one[2], one[2] + one[3]) for one in groups]
    looked = list(run(partial(_look, rows), whole))
    words = {
        name: sorted(set().union(*(one["words"][name] for one in looked)))
        for name in rows.columns()[1]
    }
    rows = replace(rows, words=words)
    starts = rank = None
    if spec.unit is not None:
        starts, rank = _units(spec, [one["units"] for one in looked])
    ends = [one[2] + one[3] for one in groups]
    cuts = [
        end for k, end in enumerate(ends[:-1]) if end // PART > (ends[k - 1] if k else 0) // PART
    ]
    if starts is not None:
        cuts = [int(starts[np.searchsorted(starts, cut, "right") - 1]) for cut in cuts]
    bounds = sorted({0, *cuts, n})
    parts = []
    for first, last in itertools.pairwise(bounds):
        some = [one[:3] for one in groups if one[2] < last and first < one[2] + one[3]]
        span = slice(None) if starts is None else slice(*np.searchsorted(starts, [first, last]))
        own = None if starts is None else starts[span]
        parts.append(Part(tuple(some), first, last, own, first if own is None else span.start))
    total = None
    if spec.weight is not None:
        weights = list(run(partial(_weight_of, rows), parts))
        before = np.cumsum([0.0, *weights])
        parts = [replace(one, weight=float(w)) for one, w in zip(parts, before, strict=False)]
        total = float(before[-1])
    pilot = _pilot(rows, groups, n)
    rows = replace(rows, spec=replace(spec, actions=spec.actions or pilot.actions))
    made = problem.problem_of(pilot, next(iter(pilot.targets)), np.random.default_rng(0))
    rewards = np.array([one["rewards"] for one in looked])
    facts = home.Facts(
        n=n,
        n_units=n if starts is None else len(starts),
        n_actions=len(pilot.actions),
        context=pilot.schema.context,
        embedding=() if made.schema is None else made.schema.embedding,
        action_embedding=made.action_embedding,
        weight_mean=None if total is None else total / n,
        unit_rank=rank,
        streams=_Streams(_trial(estimation.resolve_one("ipw"), seed).data_seed),
        pilot=_batch(home, pilot),
        reward_limits=spec.reward_range
        or (float(rewards[:, 0].min()), float(rewards[:, 1].max())),
    )
    return rows, parts, facts, pilot


def _prepared(spec: LogSpec) -> tuple[LogSpec, list[tuple[Path, int, int, int]]]:
    """Check that a log can be read in batches; return it with its policies loaded, and its groups.

    A group is a file, its row group's number, first row and number of rows.
    """
    import_all(["pyarrow.parquet"])
    import pyarrow.parquet as pq

    at = Path(spec.table)
    files = sorted(at.rglob("*.parquet")) if at.is_dir() else [at]
    if not files or files[0].suffix != ".parquet":
        raise DataFileError(at, "is no parquet file or folder of them; batches need one")
    lacking = {
        "a column `propensity`": spec.propensity in (None, "estimated"),
        "no `logging`": spec.logging is not None,
        "no `predicted_reward`": spec.predicted_reward is not None,
    }
    for what, wrong in lacking.items():
        if wrong:
            msg = f"{at}: rows that are read in batches need {what}; sample rows for the rest"
            raise UsageError(msg)
    targets = {}
    for name, policy in spec.targets.items():
        if policy.form not in ("probability", "policy") or not (
            policy.form == "policy" or isinstance(policy.value, str)
        ):
            msg = (
                f"{name}: rows that are read in batches need `probability: COLUMN` or "
                f"`policy: FILE.py:NAME`, not `{policy.form}`"
            )
            raise UsageError(msg)
        if policy.form == "policy" and isinstance(policy.value, str):
            if not registry().files_allowed:
                msg = f"{name}: {policy.value}: its code would run; --no-code refuses that"
                raise UsageError(msg)
            policy = TargetPolicy(policy=load_policy(policy.value, name))
        targets[name] = policy
    if spec.categorical is None:
        spec = replace(spec, categorical=word_columns(files[0], spec.context))
    inner = tuple(one for one in spec.categorical or () if one in spec.context)
    spec = replace(
        spec, targets=targets, categorical=inner if spec.items is None else spec.categorical
    )
    groups, first = [], 0
    names = [name for kind in Rows(spec).columns(spec.unit, spec.time) for name in kind]
    for path in files:
        data = pq.read_metadata(path)
        column_indices(path, data.schema.to_arrow_schema().names, names)
        for number in range(data.num_row_groups):
            groups.append((path, number, first, data.row_group(number).num_rows))
            first += groups[-1][3]
    groups = [one for one in groups if one[3]]
    if not groups:
        raise DataFileError(at, "has no rows")
    return spec, groups


def _look(rows: Rows, part: Part) -> dict[str, Any]:
    """Return the distinct words of a row group, its range of rewards and its units' first rows."""
    spec, words = rows.spec, rows.columns()[1]
    distinct = {name: StringColumn() for name in words}
    limits: list[float] = []
    units: list[tuple[IntArray, Any]] = []
    for first, table in rows.tables(
        part, dict.fromkeys([*words, spec.reward, spec.unit or spec.reward])
    ):
        for name in words:
            extend_words(distinct[name], table.column(name).combine_chunks().unique())
        reward = np.asarray(table.column(spec.reward), dtype=np.float64)
        limits += [float(reward.min()), float(reward.max())]
        if spec.unit is not None:
            unit = np.asarray(table.column(spec.unit))
            begin = np.flatnonzero(np.append(True, unit[1:] != unit[:-1]))
            units += [(first + begin, unit[begin])]
    found: dict[str, Any] = {name: one.words for name, one in distinct.items()}
    return {"words": found, "rewards": (min(limits), max(limits)), "units": units}


def _units(spec: LogSpec, looked: list[list[Any]]) -> tuple[IntArray, IntArray | None]:
    """Return the first row of each unit, and its place among their names, None where sorted."""
    parts = [one for group in looked for one in group]
    starts = np.concatenate([one[0] for one in parts])
    names = np.concatenate([one[1] for one in parts])
    names = names.astype(str) if names.dtype == object else names
    first = np.append(True, names[1:] != names[:-1])
    starts, names = starts[first], names[first]
    order = np.argsort(names, kind="stable")
    same = names[order][1:] == names[order][:-1]
    if same.any():
        name = names[order][1:][same][0]
        what = f"rows of unit '{name}' are apart; sort the rows by `{spec.unit}`"
        raise DataFileError(Path(spec.table), what)
    if (np.diff(order) > 0).all():
        return starts, None
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return starts, rank


def _weight_of(rows: Rows, part: Part) -> float:
    name = str(rows.spec.weight)
    return sum(
        float(np.asarray(table.column(name), dtype=np.float64).sum())
        for _, table in rows.tables(part, [name])
    )


def _pilot(rows: Rows, groups: list[tuple[Path, int, int, int]], n: int) -> LogData:
    """Return some rows of groups all over the data set as a log; all rows of a small one."""
    import pyarrow as pa

    spec = rows.spec
    step = max(1, len(groups) // 16)
    chosen = groups if n <= PILOT else groups[::step]
    share = n if n <= PILOT else PILOT // len(chosen)
    numbers, words = rows.columns(spec.unit, spec.time)
    tables = []
    for path, number, first, size in chosen:
        part = Part(((path, number, first),), first, first + min(size, share))
        tables += [table for _, table in rows.tables(part, [*numbers, *words])]
    return rows.log(pa.concat_tables(tables), 0, spec)
