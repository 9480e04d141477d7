"""Estimate policies on a parquet data set that is larger than memory, from sums over batches."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields, replace
from functools import partial, reduce
from operator import methodcaller
from pathlib import Path
from typing import Any, cast

import numpy as np

from ope_bench.base.errors import UsageError
from ope_bench.base.units import format_duration, format_size
from ope_bench.contracts.arrays import IntArray
from ope_bench.contracts.plugins import IntervalKind
from ope_bench.contracts.random import DataSeed
from ope_bench.contracts.streaming import GROUP, LogFacts, StreamedSums, Streaming, Units
from ope_bench.contracts.view import nuisance_key
from ope_bench.logs import estimation
from ope_bench.logs.checks import CONFOUNDING, findings_of
from ope_bench.logs.loading import context_names, holds_names, load_log
from ope_bench.logs.log import Log
from ope_bench.logs.log_data import ESTIMATED, LogData, LogSpec
from ope_bench.logs.log_file import read_log_file
from ope_bench.logs.policy_code import load_policy
from ope_bench.logs.problem import OwnLog, problem_of, without_rounding
from ope_bench.logs.recommendation import few_rewards, recommendation_for
from ope_bench.logs.result import Difference, Estimates, TargetEstimates
from ope_bench.logs.targets import TargetPolicy
from ope_bench.plugins.registry import entry_points, registry
from ope_bench.plugins.spec import PluginSpec, distinct_labels
from ope_bench.reader import DataFileError, Table, TextForm
from ope_bench.reader.frames import typed_table
from ope_bench.reader.library import LibraryRefusalError, guarded, library
from ope_bench.reader.mistakes import column_indices
from ope_bench.reader.parquet import require_sizes
from ope_bench.reader.text import as_names, settle
from ope_bench.trials.isolation import thread_limit
from ope_bench.trials.record import Trial, TrialRecord
from ope_bench.trials.status import Status
from ope_bench.trials.trial import build

BATCH = 1 << 16
"""Rows at a time."""

PART = 1 << 20
"""Rows of a task, about: whole row groups, cut where a unit begins."""

PILOT = 200_000
"""Rows on which the checks run, and from which the first pass starts."""

Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
"""Applies a function to every part, in any order of work; results in the order of the parts."""


def _stream(seed: DataSeed, spec: Any) -> np.random.Generator:
    """Return the random stream of a shared fit, as of a trial in memory."""
    return seed.nuisance(nuisance_key(spec, "cpu"))


Group = tuple[Path, int, int, int]
"""A piece of a file: its path, offset in the file, first row and number of rows."""


@dataclass(frozen=True, eq=False)
class Part:
    """Rows of one task.

    Parameters
    ----------
    groups : pieces of files that have some of them: file, offset, first row and number of rows.
    first, last : the rows; the last one is not among them.
    starts : (units,), the rows at which a unit begins; None where each row is one.
    unit : number of the first unit.
    weight : sum of the row weights before.
    """

    groups: tuple[Group, ...]
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
    words : the sorted names of every column of names.
    unified : the types of columns whose types differ between files.
    kinds : the types of whole columns of texts, and of names that are floats.
    """

    spec: LogSpec
    words: Mapping[str, list[str]] = field(default_factory=dict)
    unified: Mapping[str, Any] = field(default_factory=dict)
    kinds: Mapping[str, Any] = field(default_factory=dict)

    def columns(self, *others: str | None) -> list[str]:
        """Return the columns of the log, and others."""
        spec = self.spec
        names = [*spec.context, spec.action, spec.reward, spec.propensity, spec.weight, *others]
        names += [one.value for one in spec.targets.values() if one.form == "probability"]
        return [one for one in dict.fromkeys(names) if one is not None]

    def tables(self, part: Part, columns: Iterable[str]) -> Iterator[tuple[int, Table]]:
        """Yield the rows of a part, all of a unit together, each time with their first row."""
        pl = library()
        waiting, begin, columns = None, part.first, list(columns)
        for path, offset, at, size in part.groups:
            low, end = max(part.first - at, 0), min(part.last - at, size)
            for start in range(low, end, BATCH):
                at_once = offset + start, min(BATCH, end - start)
                batch = self.read(path, columns, methodcaller("slice", *at_once))
                rows = batch if waiting is None else pl.concat([waiting, batch])
                cut = begin + rows.height
                if part.starts is not None and cut < part.last:
                    cut = int(part.starts[np.searchsorted(part.starts, cut, "right") - 1])
                if cut > begin:
                    yield begin, self.table(rows[: cut - begin], begin)
                waiting, begin = rows[cut - begin :], cut

    def read(self, path: Path, columns: Sequence[str], change: Callable[[Any], Any]) -> Any:
        """Return some rows of a file, of the types that their columns have in all files."""
        try:
            with guarded(path):
                scan = library().scan_parquet(path, glob=False)
                found = change(scan.select(columns)).collect()
                return found.with_columns(
                    _widened(path, found[name], self.unified[name], self.spec.form)
                    for name in columns
                    if name in self.unified
                )
        except LibraryRefusalError as exc:
            raise DataFileError(path, f"is no Parquet file, or damaged: {exc}") from exc

    def table(self, rows: Any, first: int) -> Table:
        """Return rows as a table of typed columns, and their places."""

        def place(row: int) -> str:
            return f"row {first + row + 1:,}"

        path, form = Path(self.spec.table), self.spec.form
        return typed_table(path, place, rows, self.names, form, kinds=self.kinds)

    @property
    def names(self) -> frozenset[str]:
        """The columns whose values are names."""
        given = (self.spec.action, self.spec.unit, *(self.spec.categorical or ()))
        return frozenset(one for one in given if one is not None)

    def log(self, table: Table, spec: LogSpec | None = None) -> LogData:
        """Return rows as a log whose names are coded as those of the whole data set."""
        if spec is None:
            spec = replace(self.spec, unit=None, largest_unit=None, time=None, items=None)
        # Code is loaded where it runs: a worker of a cluster cannot be sent its module.
        targets = {
            name: TargetPolicy(policy=load_policy(one.policy, name))
            if isinstance(one.policy, str)
            else one
            for name, one in spec.targets.items()
        }
        for name in spec.context:
            if name not in (spec.categorical or ()):
                # A median would be that of a batch.
                table.column(name).require_values()
        made = load_log(replace(spec, targets=targets), table=table, levels=self.words)
        return replace(made, spec=spec)


def estimate_stream(
    spec: LogSpec | str | Path,
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
    spec : a log file, or its description; ``table`` is a parquet file or a folder of them, and
        policies have the forms ``probability`` or ``policy``. Rows of a unit follow one another.
    estimators, level, interval, seed : as for `estimate`; reward models are ridge regressions.
    jobs : number of threads.
    timeout, memory : seconds and bytes after which the passes end without values.
    map_parts : maps tasks to parts in place of threads, for example on a cluster.

    Raises
    ------
    UsageError : a mistake in the data or its description, or what batches do not offer.
    """
    spec = spec if isinstance(spec, LogSpec) else read_log_file(Path(spec))
    streaming, kind = _streaming(), cast(IntervalKind, interval)
    estimation.check_interval(
        level, interval, ("asymptotic", "empirical-likelihood", "guaranteed")
    )
    asked = estimation.estimator_pairs(
        streaming.default_estimators if estimators is None else estimators,
        typed=estimators is not None,
    )
    begun, limits = time.monotonic(), (time.time() + (timeout or math.inf), memory)
    failed: dict[str, Any] = {}
    # Threads of linear algebra would only wait for those of the parts.
    with ThreadPoolExecutor(max(jobs, 1)) as pool, thread_limit(1):
        run: Map = pool.map if map_parts is None else map_parts
        rows, parts, facts = _scan(spec, run, seed)
        changed = [estimation.with_interval(one, facts.pilot, kind, level) for one in asked]
        objects = [one or build(text) for (text, one), _ in changed]
        sums = streaming(objects, facts)
        try:
            while not sums.done:
                task = partial(sums_of_part, rows, sums, limits)
                sums.advance(reduce(sums.add, run(task, parts)))
        except (TimeoutError, MemoryError) as exc:
            status = Status.TIMEOUT if isinstance(exc, TimeoutError) else Status.MEMORY
            failed = {"status": status, "error_message": str(exc)}
    seconds = time.monotonic() - begun
    specs = [text for (text, _), _ in changed]
    labels = distinct_labels(specs)
    average = None if failed else sums.average
    targets, differences, advice = [], [], []
    for number, name in enumerate(spec.targets):
        found = [failed] * len(specs) if failed else sums.records(number)
        rule = recommendation_for(facts.pilot, name)
        few = few_rewards(facts.pilot, name, facts.n / facts.pilot.n)
        table = []
        for text, label, (_, lack), facts_of in zip(specs, labels, changed, found, strict=True):
            kept = {"logging_average": average, "fit_seconds": seconds, **facts_of}
            status = Status(kept.pop("status"))
            record = TrialRecord(_trial(text, seed), "", status, **kept)
            given: dict[str, Any] = {"units": facts.n_units, "missing": lack}
            table.append(estimation.estimate_row(record, label, level, kind, rule, few, **given))
        mass = None if failed else sums.unsupported_mass(number)
        targets.append(TargetEstimates(name=name, unsupported_mass=mass, rows=tuple(table)))
        several = f"{name}: " if len(spec.targets) > 1 else ""
        said = "" if failed else sums.weights_note(number)
        texts = (*estimation.contradictions(table), said)
        advice += [several + one for one in texts if one]
    place = {one.name: at for at, one in enumerate(targets)}
    order = [] if failed else [place[one] for one in estimation.nearest_first(facts.pilot)]
    for q, p in itertools.combinations(order, 2):
        for text, label, apart in zip(specs, labels, sums.differences(p, q), strict=True):
            if apart is not None:
                names = text.id, label, targets[p].name, targets[q].name
                value, error = without_rounding(*apart)
                scale = facts.n / facts.pilot.n
                if error != 0 and any(
                    estimation.withheld_for(text.id, kind, facts.pilot, names[one], scale)
                    for one in (2, 3)
                ):
                    error = None
                ends = estimation.paired_interval(value, error, level, kind, facts.n_units)
                differences.append(Difference(*names, value, *ends))
    note = estimation.failed_checks_note(findings_of(facts.pilot))
    notes = (
        f"{facts.n:,} rows in batches, {format_duration(seconds)}; models are ridge regressions",
        f"on {facts.pilot.n:,} rows from all over the log: {note}",
        *advice,
        *facts.pilot.notes,
        CONFOUNDING,
    )
    return Estimates(
        log={**facts.pilot.facts(), "rows": facts.n, "units": facts.n_units},
        # Where nothing was summed, that of the pilot rows.
        logging_average=float(facts.pilot.reward_terms.mean()) if average is None else average,
        targets=tuple(targets),
        differences=tuple(differences),
        notes=notes,
        source=Log(**{one.name: getattr(facts.pilot, one.name) for one in fields(facts.pilot)}),
    )


def _trial(spec: PluginSpec, seed: int) -> Trial:
    """Return the in-memory trial with the same random streams."""
    cls = f"{OwnLog.__module__}:{OwnLog.__qualname__}"
    environment = PluginSpec("environment", cls, estimation.ENVIRONMENT, {}, origin="ope_bench")
    return Trial(environment, spec, 0, seed=seed)


def sums_of_part(
    rows: Rows, sums: StreamedSums, limits: tuple[float, int | None], part: Part
) -> Any:
    """Return a pass's sums over the batches of one part: the task that a cluster may run."""
    import psutil

    total, weight = None, part.weight
    for first, table in rows.tables(part, rows.columns()):
        used = psutil.Process().memory_info().rss
        if time.time() > limits[0]:
            msg = "the passes over the rows did not end within --timeout; give it more time"
            raise TimeoutError(msg)
        if used > (limits[1] or math.inf):
            msg = f"the passes over the rows took {format_size(used)}, more than --memory"
            raise MemoryError(msg)
        log = rows.log(table)
        found = sums.sums(log, first, part, weight)
        total = found if total is None else sums.add(total, found)
        weight += 0.0 if log.weight is None else float(log.weight.sum())
    return total


def _streaming() -> Streaming:
    """Return what computes estimates from sums over batches."""
    points = entry_points(GROUP)
    if len(points) != 1:
        msg = f"{len(points)} packages compute estimates in batches (group {GROUP}), not one"
        raise UsageError(msg)
    return cast(Streaming, points[0].load())


# What is known before the passes.


def bounds(sizes: Sequence[int], most: int, units: Units | None) -> list[int]:
    """Return the rows at which tasks begin, and the number of rows.

    Tasks have about ``most`` rows and end where row groups do, or at a unit's begin before.

    >>> bounds([4, 4, 4], 8, None)
    [0, 8, 12]
    """
    ends = np.cumsum(sizes)
    before = ends - sizes
    cuts = ends[:-1][ends[:-1] // most > before[:-1] // most]
    if units is not None and len(cuts):
        cuts = units.starts[np.searchsorted(units.starts, cuts, "right") - 1]
    return sorted({0, *cuts.tolist(), int(ends[-1])})


def _scan(spec: LogSpec, run: Map, seed: int) -> tuple[Rows, list[Part], LogFacts]:
    """Return rows, tasks and facts, from a look at the columns of words and units."""
    rows, groups = _prepared(spec, run)
    spec = rows.spec
    looked = list(run(partial(_look, rows), _whole(groups)))
    units = None
    if spec.unit is not None:
        units = Units.of([one for _, found in looked for one in found])
        if units.apart is not None:
            what = f"rows of unit '{units.apart}' are apart; sort the rows by `{spec.unit}`"
            raise DataFileError(Path(spec.table), what)
    parts = []
    for first, last in itertools.pairwise(bounds([one[3] for one in groups], PART, units)):
        some = tuple(one for one in groups if one[2] < last and first < one[2] + one[3])
        inside = (None, first) if units is None else units.inside(first, last)
        parts.append(Part(some, first, last, *inside))
    if spec.weight is not None:
        before = np.cumsum([0.0, *run(partial(_weight_of, rows), parts)]).tolist()
        parts = [replace(one, weight=weight) for one, weight in zip(parts, before, strict=False)]
    pilot = _pilot(rows, groups)
    limits = np.array([one for one, _ in looked])
    facts = LogFacts(
        n=parts[-1].last,
        units=units,
        weight=None if spec.weight is None else before[-1],
        pilot=pilot,
        problem_of=problem_of,
        streams=partial(_stream, _trial(estimation.resolve_one("ipw"), seed).data_seed),
        reward_limits=spec.reward_range or (float(limits.min()), float(limits.max())),
    )
    return replace(rows, spec=replace(spec, actions=spec.actions or pilot.actions)), parts, facts


def _whole(groups: Sequence[Group]) -> list[Part]:
    return [Part((one,), one[2], one[2] + one[3]) for one in groups]


def _prepared(spec: LogSpec, run: Map) -> tuple[Rows, list[Group]]:
    """Check that a log can be read in batches; return its rows and its groups."""
    at = Path(spec.table)
    files = sorted(at.rglob("*.parquet")) if at.is_dir() else [at]
    if not files or files[0].suffix != ".parquet":
        raise DataFileError(at, "is no parquet file or folder of them; batches need one")
    lacking = {
        "a column `propensity`": spec.propensity in (None, ESTIMATED),
        "no `logging`": spec.logging is not None,
        "no `drop_missing`": spec.drop_missing,
        "no `predicted_reward`": spec.predicted_reward is not None,
    }
    for name, policy in spec.targets.items():
        value, code = policy.value, policy.form == "policy"
        form = f"`probability: COLUMN` or `policy: FILE.py:NAME` of {name}, not `{policy.form}`"
        lacking[form] = not (code or (policy.form == "probability" and isinstance(value, str)))
        if code and isinstance(value, str):
            lacking[f"{value}, whose code --no-code refuses to run"] = not registry().files_allowed
    for what in (what for what, wrong in lacking.items() if wrong):
        msg = f"{at}: a log that is read in batches has {what}; else sample rows into a file"
        raise UsageError(msg)
    pl = library()
    groups: list[Group] = []
    first = 0
    schemas: dict[Path, Any] = {}
    for path in files:
        try:
            with guarded(path):
                scan = pl.scan_parquet(path, glob=False)
                schemas[path] = scan.collect_schema()
                names = schemas[path].names()
                require_sizes(path, names)
                size = int(scan.select(pl.len()).collect().item())
        except LibraryRefusalError as exc:
            raise DataFileError(path, f"is no Parquet file, or damaged: {exc}") from exc
        if not first:
            spec = replace(spec, context=context_names(spec.context, names, spec.roles))
        column_indices(path, names, Rows(spec).columns(spec.unit, spec.time))
        groups += [(path, k, first + k, min(PART, size - k)) for k in range(0, size, PART)]
        first += size
    if not first:
        raise DataFileError(at, "has no rows; write one for each decision")
    rows = Rows(spec)
    columns = rows.columns(spec.unit, spec.time)
    rows = replace(rows, unified=_unified(rows, schemas, columns))
    types = {name: rows.unified.get(name, schemas[files[0]][name]) for name in columns}
    whole = {
        name: _distinct(rows, files, name)
        for name, kind in types.items()
        if name in rows.names or kind in (pl.String, pl.Categorical, pl.Enum)
    }
    kinds = {
        name: _kind_of(some, spec.form, name in rows.names)
        for name, some in whole.items()
        if some.dtype == pl.String or some.dtype.is_float()
    }
    floats = {name: kinds[name] for name, some in whole.items() if some.dtype.is_float()}
    rows = replace(rows, unified={**rows.unified, **floats}, kinds=kinds)
    given = {*(spec.categorical or ())}
    for name in spec.context:
        tables = (table for one in _whole(groups) for _, table in rows.tables(one, [name]))
        table = next(tables)
        text = name not in given and kinds.get(name) == pl.String
        if text and whole[name].cast(pl.Float64, strict=False).count():
            # Words among numbers are refused with their place.
            rest = [one.frame for one in tables]
            table = rows.table(pl.concat([table.frame, *rest]), 0)
        if name not in given and holds_names(table.column(name)):
            given.add(name)
    found = tuple(name for name in spec.context if name in given)
    words = {
        name: rows.table(whole[name].to_frame(), 0).column(name).codes()[1]
        for name in (spec.action, *found)
    }
    return replace(rows, spec=replace(spec, categorical=found), words=words), groups


def _unified(rows: Rows, schemas: Mapping[Path, Any], columns: list[str]) -> dict[str, Any]:
    """Return one type for each column whose types differ between files.

    Raises
    ------
    DataFileError : they hold different things, such as numbers and texts.
    """
    pl = library()
    kinds = {}
    for name in columns:
        given = {path: schema[name] for path, schema in schemas.items()}
        given = {path: kind for path, kind in given.items() if kind != pl.Null}
        if len({*given.values(), *([] if len(given) == len(schemas) else [pl.Null])}) < 2:
            continue
        empty = {path: pl.Series(name, [], dtype=kind) for path, kind in given.items()}
        made = {
            path: typed_table(path, str, one.to_frame(), frozenset(), rows.spec.form).frame[name]
            for path, one in empty.items()
        }
        several = {one.dtype: path for path, one in made.items()}
        numbers = all(
            one.is_numeric() or (one == pl.Boolean and name not in rows.names) for one in several
        )
        if len(several) > 1 and not numbers:
            (kind, path), (other, where) = [*several.items()][:2]
            what = f"column '{name}' is {str(other).lower()}, and {str(kind).lower()} in {path}"
            raise DataFileError(where, f"{what}; write it as one type in all files")
        whole = pl.Int64 if name in rows.names else pl.Float64
        kinds[name] = next(iter(several), pl.String) if len(several) < 2 else whole
    return kinds


def _widened(path: Path, series: Any, kind: Any, form: TextForm) -> Any:
    """Return a column of a file as the type that it has in all files."""
    pl = library()
    if series.dtype == pl.Null or kind == pl.String:
        return series.cast(kind)
    found = typed_table(path, str, series.to_frame(), frozenset(), form).frame[series.name]
    cast = found.cast(kind, strict=False)
    if (cast.cast(found.dtype, strict=False) != found).any():
        what = f"column '{series.name}' does not fit the type of the other files, {kind}"
        raise DataFileError(path, f"{what}; write it as one type in all files")
    return cast


def _distinct(rows: Rows, files: Iterable[Path], name: str) -> Any:
    """Return the values of a column, each once."""
    pl = library()
    found = [rows.read(one, [name], methodcaller("unique"))[name] for one in files]
    if found[0].dtype in (pl.Categorical, pl.Enum):
        found = [one.cast(pl.String) for one in found]
    return pl.concat(found).unique()


def _kind_of(some: Any, form: TextForm, names: bool) -> Any:
    """Return the type of a whole column, by values that settle it."""
    pl = library()
    if some.dtype.is_float():
        some = some.drop_nulls().cast(pl.Float64)
        return pl.Float64 if (some != some.floor()).any() else pl.Int64
    settled = settle(some, form, spelled=names)
    if settled.dtype != pl.String or not names:
        return settled.dtype
    return pl.Int64 if as_names(settled).dtype.is_integer() else pl.String


def _look(rows: Rows, part: Part) -> tuple[tuple[float, float], list[tuple[IntArray, Any]]]:
    """Return a part's range of rewards, and the first rows of its units with their names."""
    spec = rows.spec
    limits: list[float] = []
    units: list[tuple[IntArray, Any]] = []
    for first, table in rows.tables(part, {spec.reward, spec.unit or spec.reward}):
        reward = table.column(spec.reward).numbers(yes_no=True)
        limits += [float(np.nanmin(reward)), float(np.nanmax(reward))]
        if spec.unit is not None:
            table.column(spec.unit).require_values()
            code, units_here = table.column(spec.unit).codes()
            begin = np.flatnonzero(np.append(True, code[1:] != code[:-1]))
            units += [(first + begin, np.array(units_here)[code[begin]])]
    return (min(limits), max(limits)), units


def _weight_of(rows: Rows, part: Part) -> float:
    name = str(rows.spec.weight)
    return sum(float(table.column(name).numbers().sum()) for _, table in rows.tables(part, [name]))


def _pilot(rows: Rows, groups: list[Group]) -> LogData:
    """Return some rows of pieces all over the data set as a log; all rows of a small one."""
    small = groups[-1][2] + groups[-1][3] <= PILOT
    pieces = [
        (path, offset + at, first + at, min(PART // 16, size - at))
        for path, offset, first, size in groups
        for at in range(0, size, PART // 16)
    ]
    chosen = groups if small else pieces[:: max(1, len(pieces) // 16)]
    columns = rows.columns(rows.spec.unit, rows.spec.time)
    tables = []
    for path, offset, first, size in chosen:
        last = first + (size if small else min(size, PILOT // len(chosen)))
        part = Part(((path, offset, first, size),), first, last)
        tables += [one.frame.with_columns(**one.texts) for _, one in rows.tables(part, columns)]
    whole = library().concat(tables, how="vertical_relaxed")
    return rows.log(rows.table(whole, 0), rows.spec)
