"""``ope-bench log``, ``estimate`` and ``advise``: the commands for a user's own log."""

from __future__ import annotations

import contextlib
import csv
import functools
import inspect
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import typer

import ope_bench
from ope_bench.base.console import Format, json_stdout, note, use_color, write
from ope_bench.base.console import width as terminal_width
from ope_bench.base.errors import UsageError
from ope_bench.base.exit_codes import exit_on_signals
from ope_bench.base.units import format_duration
from ope_bench.cli import options
from ope_bench.execution import Event, Finished, Message, Started
from ope_bench.report import needs_extra

if TYPE_CHECKING:
    from ope_bench.logs.log_data import LogSpec
    from ope_bench.logs.result import Estimates
    from ope_bench.logs.rewards import ByReward
    from ope_bench.reader import TextForm
    from ope_bench.report.tables import TextTable
    from ope_bench.trials.record import Trial

LogFileArgument = Annotated[Path, typer.Argument(help="A log file (.yaml).")]
ReportOption = Annotated[
    Path | None,
    typer.Option("--report", metavar="FILE.html", help="Also write a page that needs no network."),
]


ByOption = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN", help="Also the value in each level of a column, 20 at most; who loses."
    ),
]


def _check_report(path: Path | None) -> None:
    """Refuse a report that could not be written, before anything runs.

    Raises
    ------
    UsageError : the extra ``report`` is not installed, or there is no such folder.
    """

    if path is not None:
        needs_extra()
        if not path.parent.is_dir():
            msg = f"--report: {path.parent}: no such folder"
            raise UsageError(msg)


def _write_tables(shown: Iterable[TextTable], lines: Sequence[str] = ()) -> None:
    """Write lines, each as wide as the terminal, and tables below them."""
    from ope_bench.report.tables import render_text

    for line in lines:
        write(fill(line, terminal_width()))
    if lines:
        write("")
    texts = (
        render_text(table, width=terminal_width(), color=use_color()).rstrip() for table in shown
    )
    write("\n\n".join(texts))


def _executor(jobs: int | None, timeout: float | None, memory: int | None) -> Any:
    """Return the context of worker processes, by default one for each core."""
    from ope_bench.execution.local import LocalExecutor
    from ope_bench.execution.machine import available_cores

    executor = LocalExecutor(jobs or available_cores(), timeout=timeout, memory=memory)
    return contextlib.closing(executor)


class _Fits:
    """One line for each estimator: how long it runs, on a terminal, then what came of it.

    In a pipe there is one of those that took long.
    """

    def __init__(self) -> None:
        self._running: dict[int, tuple[str, float]] = {}
        self._live: Any = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            console = Console(stderr=True, highlight=False)
            self._live = Live(get_renderable=self._lines, console=console, transient=True)
            self._live.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._live is not None:
            self._live.__exit__(None, None, None)
            self._live = None

    def __call__(self, event: Event) -> None:
        # Here, because `--help` imports this module, and these import NumPy.
        from ope_bench.cli.progress import SECONDS_BETWEEN_LINES
        from ope_bench.report.tables import figure

        if isinstance(event, Message):
            note(event.text)
        if isinstance(event, Started):
            self._running[event.worker] = (event.trial.estimator.id, time.monotonic())
        elif isinstance(event, Finished):
            record = event.record
            _, since = self._running.pop(event.worker, ("", time.monotonic()))
            spent = time.monotonic() - since
            answer = record.status.value if record.estimate is None else figure(record.estimate)
            line = f"{record.trial.estimator.id:<20} {answer:>12}  {format_duration(spent)}"
            if self._live is not None:
                self._live.console.print(line, markup=False)
            elif spent > SECONDS_BETWEEN_LINES:
                note(line)

    def _lines(self) -> str:
        now = time.monotonic()
        # A copy, because another thread draws the lines.
        running = self._running.copy().values()
        return "\n".join(
            f"{name:<20} {'fitting':>12}  {format_duration(now - since)}"
            for name, since in running
        )


# A log of a command: a log file, or a table with options that describe it.

LOG_FILES = (".yaml", ".yml")

OpenLog = Callable[..., Any]
"""Loads the log of a command, or its description where it is to be read in batches.

Its arguments are the longest time of a policy's file and whether to read in batches; a folder of
parquet files always is, and a table in memory never.
"""


DESCRIBED = {
    "context": ("COLUMN,...", "Context columns of a table, also patterns such as emb_*."),
    "action": ("COLUMN", "The action."),
    "reward": ("COLUMN,...", "The reward; of several each has a result of its own."),
    "propensity": (
        "COLUMN",
        "The logging policy's probability of the action; `estimated` to estimate it.",
    ),
    "items": ("FILE", "A table that describes the actions, one row each, in the same column."),
    "weight": ("COLUMN", "For how many rows each row stands."),
    "predicted-table": ("FILE", "Predictions made elsewhere: columns row, action, prediction."),
    "predicted-logged": ("COLUMN", "The predictions of the logged actions."),
    "unit": ("COLUMN", "Rows of one unit depend on each other."),
    "time": ("COLUMN", "Orders the rows, for checks of drift."),
    "categorical": ("COLUMN,...", "Columns of codes; columns of words are found without it."),
    "actions": ("NAME,...", "The actions to which a policy's columns or lists belong."),
    "missing": ("WORD,...", "Words for a missing value, beside an empty cell."),
    "encoding": ("NAME", "Encoding of text files; UTF-8 without it."),
    "delimiter": ("MARK", "Delimiter of fields; found without it."),
    "decimal": ("MARK", "Mark before decimals: a point, or a comma."),
    "time-format": ("FORMAT", "Form of times, such as %d/%m/%Y; found without it."),
    "reward-range": ("LOW,HIGH", "Smallest and largest reward."),
    "smallest-propensity": ("P", "Least probability that the logging policy gives an action."),
    "logging": ("FILE", "The whole logging policy: a table, or FILE.py:NAME, as targets."),
    "target-action": ("COLUMN", "What the new policy did, once a row."),
    "target-probability": ("COLUMN", "The new policy's probability of the logged action."),
    "target-table": (
        "FILE",
        "The new policy: columns row, action, probability, or one for each action.",
    ),
    "target-list": ("COLUMN", "The new policy's list of probabilities of all --actions."),
    "target-policy": ("FILE.py:NAME", "The new policy as code."),
}
"""The options that describe a table and the new policy, with what they take."""


def takes_log(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command FILE and the options that describe a table, in place of its first parameter.

    That parameter is a function that loads the log, for the place where errors are answered.
    """
    _, _, file, *flags, _ = inspect.signature(log_of_command, eval_str=True).parameters.values()
    shared = [file, *_described(DESCRIBED), *flags]
    return _with_options(command, shared, functools.partial(functools.partial, log_of_command))


def takes_columns(*names: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Give a command options that describe a table, in place of its first parameter.

    That parameter is a mapping of the options that were given.
    """
    return lambda command: _with_options(command, _described(names), _given)


def _described(names: Iterable[str]) -> list[inspect.Parameter]:
    """Return the parameters of options of `DESCRIBED`."""
    return [
        inspect.Parameter(
            name.replace("-", "_"),
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[str | None, typer.Option(metavar=metavar, help=text)],
        )
        for name, (metavar, text) in ((name, DESCRIBED[name]) for name in names)
    ]


def _given(**described: str | None) -> dict[str, str]:
    """Return the options that were given, by their names."""
    return {name.replace("_", "-"): text for name, text in described.items() if text is not None}


def _with_options(
    command: Callable[..., int], shared: Sequence[inspect.Parameter], first: Callable[..., Any]
) -> Callable[..., int]:
    """Give a command shared options, of which its first parameter is made."""
    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]

    @functools.wraps(command)
    def wrapped(**given: Any) -> int:
        of_first = {one.name: given.pop(one.name) for one in shared}
        return command(first(**of_first), **given)

    # Typer makes the options from the signature; all are given by name.
    by_name = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in (*shared, *own)]
    wrapped.__signature__ = inspect.Signature(by_name)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {one.name: one.annotation for one in by_name}
    return wrapped


def log_of_command(
    policy_timeout: float | None,
    stream: bool | None,
    file: Annotated[
        Path,
        typer.Argument(help="A log file (.yaml), or a table with the options that describe it."),
    ],
    drop_missing: Annotated[
        bool,
        typer.Option(
            "--drop-missing", help="Leave out rows without action, reward or propensity."
        ),
    ] = False,
    decisions: Annotated[
        int | None,
        typer.Option(help="Number of decisions taken; fewer rows show that some are missing."),
    ] = None,
    largest_unit: Annotated[
        int | None, typer.Option(help="Most rows that a unit can have: of guaranteed intervals.")
    ] = None,
    save: Annotated[
        Path | None, typer.Option("--save", help="Write the log file of these options.")
    ] = None,
    **described: str | None,
) -> Any:
    """Load a log file, or a table and its options.

    Raises
    ------
    UsageError : both are given, an option is missing, or the file or the data are wrong.
    """
    from ope_bench.logs.log_file import write_log_file

    spec = spec_of_command(file, _given(**described))
    spec = replace(
        spec,
        drop_missing=spec.drop_missing or drop_missing,
        decisions=spec.decisions if decisions is None else decisions,
        largest_unit=spec.largest_unit if largest_unit is None else largest_unit,
    )
    if save is not None:
        write_log_file(spec, save)
        note(f"wrote {save}")
    folder = Path(spec.table).is_dir()
    if folder and stream is None:
        msg = f"{spec.table}: is a folder, which `estimate` alone reads, in batches"
        raise UsageError(msg)
    return spec if stream or folder else ope_bench.Log.of(spec, timeout=policy_timeout)


def spec_of_command(file: Path, described: Mapping[str, Any]) -> LogSpec:
    """Return the description of a log file, or of a table and options.

    Parameters
    ----------
    file : a log file or a table.
    described : the options that describe a table and the new policy, those that were given.

    Raises
    ------
    UsageError : both are given, an option is missing, or the file is wrong.
    """
    from ope_bench.logs.log_data import Items, LogSpec
    from ope_bench.logs.log_file import DEFAULT_TARGET, read_log_file
    from ope_bench.logs.targets import FORMS, TargetPolicy, named_actions

    if file.suffix in LOG_FILES:
        for name in described:
            msg = f"--{name}: {file} is a log file; write it there"
            raise UsageError(msg)
        return read_log_file(file)
    if not file.exists():
        msg = f"{file}: no such file"
        raise UsageError(msg)

    def columns(name: str) -> tuple[str, ...]:
        return _words(described.get(name))

    for name in ("action", "reward"):
        if not columns(name):
            msg = f"--{name}: is missing; a table needs it (a log file ends in {LOG_FILES[0]})"
            raise UsageError(msg)
    reward, *others = columns("reward")
    targets = [
        TargetPolicy.of(form, described[f"target-{form}"])
        for form in FORMS
        if f"target-{form}" in described
    ]
    if len(targets) != 1:
        names = ", ".join(f"--target-{form}" for form in FORMS)
        msg = f"{len(targets)} target policies; give exactly one of {names}"
        raise UsageError(msg)
    context, action = columns("context"), described["action"]
    items = Items(Path(described["items"]), action) if "items" in described else None
    policy: TargetPolicy | None = None
    if "logging" in described:
        form = "policy" if ".py:" in described["logging"] else "table"
        policy = TargetPolicy(**{form: described["logging"]})
    parts = ("logged", "table")
    predicted = {one: value for one in parts if (value := described.get(f"predicted-{one}"))}
    named: dict[str, Any] = {
        role: described.get(role) for role in ("propensity", "weight", "unit", "time")
    }
    return LogSpec(
        **named,
        table=file,
        context=context,
        categorical=columns("categorical") or None,
        actions=named_actions(columns("actions")) if "actions" in described else None,
        form=_form_of(described),
        action=action,
        reward=reward,
        other_rewards=tuple(others),
        items=items,
        predicted_reward=predicted or None,
        reward_range=_numbers_of(described, "reward-range", "LOW,HIGH") or None,
        smallest_propensity=next(iter(_numbers_of(described, "smallest-propensity", "P")), None),
        logging=policy,
        targets={DEFAULT_TARGET: targets[0]},
    )


def _words(text: str | None) -> tuple[str, ...]:
    """Return the words of a line of a CSV file: names that hold a comma are quoted."""
    words = next(csv.reader([text or ","], skipinitialspace=True))
    return tuple(word.strip() for word in words if word.strip())


def _form_of(described: Mapping[str, str]) -> TextForm:
    """Return how values are written in text files."""
    from ope_bench.reader import TextForm

    mark = described.get("delimiter")
    return TextForm(
        _words(described.get("missing")),
        described.get("encoding"),
        "\t" if mark == "\\t" else mark,
        described.get("decimal", "."),
        described.get("time-format"),
    )


def _numbers_of(described: Mapping[str, str], name: str, form: str) -> tuple[Any, ...]:
    """Return the numbers of an option, as many as its form has; none where it was not given."""
    if (text := described.get(name)) is None:
        return ()
    try:
        found = tuple(map(float, text.split(",")))
    except ValueError:
        found = ()
    if len(found) != form.count(",") + 1:
        msg = f"--{name}: {text} is not {form}; give {'numbers' if ',' in form else 'a number'}"
        raise UsageError(msg)
    return found


# ``ope-bench log``: check, or import, a user's own log, or write an example of one.

log_app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Check a log of your own, import one, or write an example.",
)


@log_app.command()
@takes_log
def check(
    log_of: OpenLog,
    timeout: options.TimeoutOption = None,
    no_code: options.NoCodeOption = False,
    output: options.FormatOption = Format.TEXT,
) -> int:
    """Say what is in a log, what is wrong, and which estimators run."""

    with exit_on_signals(), json_stdout(output) as emit:
        result = log_of(timeout, None).check()
        emit(result.as_json())
    if output is Format.TEXT:
        _write_tables(result.tables())
    return 0


@log_app.command()
def example(
    folder: Annotated[Path, typer.Argument(help="A folder, made if it is not there.")],
) -> int:
    """Write an invented log of 5,000 decisions with all its files."""
    from ope_bench.logs.example import write_example

    for path in write_example(folder):
        note(f"wrote {path}")
    note(f"next    ope-bench log check {folder / 'shop.yaml'}")
    note(f"then    ope-bench estimate {folder / 'shop.yaml'}")
    note(f"and     ope-bench advise {folder / 'shop.yaml'}")
    return 0


@log_app.command("import")
def import_(
    name: Annotated[
        str,
        typer.Argument(
            metavar="FORMAT", help="vw-dsjson, growthbook, router-jsonl, or ./my.py:Shop."
        ),
    ],
    file: Annotated[Path, typer.Argument(help="The log of that platform.")],
    folder: Annotated[
        Path, typer.Option("-o", "--output", metavar="FOLDER", help="Made if it is not there.")
    ],
    example: Annotated[
        bool, typer.Option("--example", help="First write an invented FILE of 2,000 decisions.")
    ] = False,
) -> int:
    """Make a table and a log file of another platform's log.

    Packages add formats by entry points of the group `ope_bench.log_formats`.
    """
    from ope_bench.logs.formats import import_log, log_format, write_example_events

    made = log_format(name)
    if example:
        write_example_events(made, file)
        note(f"wrote {file}")
    result = import_log(made, file, folder)
    note(f"wrote {result.table}")
    note(f"wrote {result.log_file}")
    note(
        f"{result.rows:,} decisions; {result.left_out:,} lines left out: no reward or no decision"
    )
    for lack in result.lacks:
        note(fill(f"lacks {lack}", terminal_width(), subsequent_indent="      "))
    note(f"next  ope-bench log check {result.log_file}")
    return 0


# ``ope-bench advise``: whether a log can answer, by which estimator, how wrong.


@takes_log
def advise_command(
    log_of: OpenLog,
    target: Annotated[
        str | None, typer.Option(help="One policy of a log file that has several; all by default.")
    ] = None,
    worlds: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MAKER",
            help="With --simulate: simulators fitted to the log (pseudo-reward, redrawn, "
            "resample), with parameters like an environment's; four by default.",
        ),
    ] = None,
    simulate: Annotated[
        bool,
        typer.Option("--simulate", help="Also run the candidates on worlds made from the log."),
    ] = False,
    replicates: options.ReplicatesOption = None,
    budget: Annotated[
        float, options.duration("5m", help="Time limit for the worlds of --simulate.")
    ] = 300.0,
    today_share: Annotated[
        float, typer.Option(help="Share of the next log drawn from the current policy.")
    ] = 0.2,
    est: options.EstOption = None,
    by: ByOption = None,
    fail_on: Annotated[
        Literal["caution", "run-an-experiment"] | None,
        typer.Option(help="Exit code 1 where the verdict on a policy is this or worse."),
    ] = None,
    require: Annotated[
        str | None,
        typer.Option(
            metavar="better|CONDITION,...",
            help="Exit code 1 unless every policy is surely better than today, or surely meets "
            "all conditions: 'quality >= today, cost <= 0.2'.",
        ),
    ] = None,
    report: ReportOption = None,
    jobs: options.JobsOption = None,
    timeout: options.TimeoutOption = None,
    memory: options.MemoryOption = None,
    no_code: options.NoCodeOption = False,
    output: options.FormatOption = Format.TEXT,
) -> int:
    """Say whether a log can answer, and if the new policy is better.

    The verdict is trust (yes), caution (with repairs) or run-an-experiment (no). The interval is
    wide where estimators disagree. Of several policies each is judged, and they are compared as by
    `shortlist`. Exit code 3: no candidate has a value; 1: as --fail-on or --require asks.
    """
    from ope_bench.cli.progress import RunState, display
    from ope_bench.execution.machine import available_cores
    from ope_bench.logs.advise import PoliciesAdvice
    from ope_bench.logs.rewards import ByReward, conditions_of, statements

    _check_report(report)
    with exit_on_signals(), json_stdout(output) as emit:
        log = log_of(timeout, None)
        one_asked = require == BETTER and not log.other_rewards
        asked = None if one_asked else require
        conditions = [] if asked is None else conditions_of(asked, log.spec.rewards)
        fits = _Fits()
        # What runs on one policy shares its fits, so that more workers would fit all again.
        few = None if simulate or worlds else min(len(log.targets), available_cores())
        with _executor(jobs or few, timeout, memory) as executor, fits:

            def observe(trials: Sequence[Trial]) -> Any:
                # One screen at a time.
                fits.__exit__()
                end = time.monotonic() + budget
                state = RunState(trials, "expected", executor.jobs, deadline=end)
                return display(state, "worlds made from the log")

            result = ope_bench.advise(
                log,
                target=target,
                simulate=simulate,
                worlds=worlds,
                replicates=replicates,
                budget=budget,
                today_share=today_share,
                candidates=est,
                by=by,
                executor=executor,
                on_event=fits,
                observe=observe,
            )
        if report is not None:
            log.report(result, report)
            note(f"wrote {report}")
        stated = statements(result, log.spec.reward, conditions) if conditions else []
        said = [one.as_json() for one in stated]
        emit(result.as_json() | ({"require": said} if conditions else {}))
    if output is Format.TEXT:
        lines = result.opening().splitlines() + [str(one) for one in stated]
        _write_tables(result.tables(), lines)
        if isinstance(result, PoliciesAdvice):
            note(f"--target {result.policies[0].target} shows the checks behind its verdict")
    results = result.results.values() if isinstance(result, ByReward) else [result]
    judged = [one for found in results for one in getattr(found, "policies", [found])]
    refused = {None: (), "caution": ("caution", "run-an-experiment")}.get(fail_on, (fail_on,))
    failed = any(one.verdict in refused for one in judged)
    failed |= require == BETTER and any(one.better != BETTER for one in judged)
    failed |= not all(one.holds for one in stated)
    return result.exit_code or int(failed)


BETTER = "better"


# ``ope-bench shortlist``: which of several policies to try.


def shortlist_command(
    file: LogFileArgument,
    incumbent: Annotated[
        str | None,
        typer.Option(help="The policy to beat; what was logged by default."),
    ] = None,
    alpha: Annotated[
        float, typer.Option(help="Probability with which any of the intervals may miss.")
    ] = 0.05,
    jobs: options.JobsOption = None,
    timeout: options.TimeoutOption = None,
    memory: options.MemoryOption = None,
    no_code: options.NoCodeOption = False,
    output: options.FormatOption = Format.TEXT,
) -> int:
    """Say which of several policies of a log may be the best.

    The intervals hold for all pairs of policies at once. Exit code 3: no policy has a value.
    """
    with exit_on_signals(), json_stdout(output) as emit:
        log = ope_bench.Log.read(file, timeout=timeout)
        with _executor(jobs, timeout, memory) as executor, _Fits() as fits:
            result = ope_bench.shortlist(
                log, incumbent=incumbent, alpha=alpha, executor=executor, on_event=fits
            )
        emit(result.as_json())
    if output is Format.TEXT:
        _write_tables(result.tables())
    return 3 if result.winner is None else 0


# ``ope-bench ab``: two randomized policies, by a log of each.


@takes_columns(
    *("action", "context", "categorical", "unit", "weight", "reward-range"),
    *("missing", "encoding", "delimiter", "decimal"),
)
def ab_command(
    described: Mapping[str, str],
    a: Annotated[Path, typer.Argument(help="The log of policy A, or of both with --arm.")],
    b: Annotated[Path | None, typer.Argument(help="The log of policy B.")] = None,
    probability_a: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="A's probability of the logged action, in both logs."),
    ] = None,
    probability_b: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="B's probability of the logged action, in both logs."),
    ] = None,
    reward: Annotated[str | None, typer.Option(metavar="COLUMN", help="The reward.")] = None,
    arm: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Names the policy that chose; the first name is A."),
    ] = None,
    width: Annotated[
        float | None,
        typer.Option(help="The width that is wanted; half of the one found by default."),
    ] = None,
    level: Annotated[float, typer.Option(help="Level of the intervals.")] = 0.95,
    output: options.FormatOption = Format.TEXT,
) -> int:
    """Compare two randomized policies with logged probabilities.

    An A/B test: the difference A minus B by the probabilities needs fewer rows than the difference
    of means; checks tell whether the probabilities can be right, with --action and --context
    better, and --context narrows the interval.
    """
    needed = {"probability_a": probability_a, "probability_b": probability_b, "reward": reward}
    for name, column in needed.items():
        if not column:
            msg = f"--{name.replace('_', '-')}: is missing; name the column"
            raise UsageError(msg)
    for one in filter(None, (a, b)):
        if not one.is_file():
            msg = f"{one}: {'is a folder' if one.exists() else 'no such file'}; give a table"
            raise UsageError(msg)
        if one.suffix in LOG_FILES:
            msg = f"{one}: a log file describes one policy's log; give the table that it names"
            raise UsageError(msg)
    with exit_on_signals(), json_stdout(output) as emit:
        result = ope_bench.ab(
            a,
            b,
            probability_a=str(probability_a),
            probability_b=str(probability_b),
            reward=str(reward),
            arm=arm,
            action=described.get("action"),
            unit=described.get("unit"),
            weight=described.get("weight"),
            context=_words(described.get("context")),
            categorical=_words(described.get("categorical")) or None,
            reward_range=_numbers_of(described, "reward-range", "LOW,HIGH") or None,
            width=width,
            level=level,
            form=_form_of(described),
        )
        emit(result.as_json())
    if output is Format.TEXT:
        _write_tables(result.tables(), [result.opening()])
    else:
        for line in result.notes:
            note(line)
    return 0


# ``ope-bench estimate``: the value of a new policy, from a log.

EstimateFormat = Literal["text", "json", "csv", "markdown"]


@takes_log
def estimate_command(
    log_of: OpenLog,
    est: options.EstOption = None,
    level: Annotated[float, typer.Option(help="Level of the intervals.")] = 0.95,
    interval: Annotated[
        str,
        typer.Option(
            metavar="KIND",
            help="asymptotic, disagreement, empirical-likelihood, guaranteed, anytime or "
            "bootstrap, which fits 200 times: minutes; the output says which estimators do not "
            "offer it.",
        ),
    ] = "asymptotic",
    sensitivity: Annotated[
        bool,
        typer.Option(
            "--sensitivity",
            help="Sensitivity to unobserved confounding: bounds, and the odds ratio at which "
            "the lift changes sign.",
        ),
    ] = False,
    by: ByOption = None,
    stream: Annotated[
        bool,
        typer.Option(
            "--stream", help="Read a parquet file in batches, as a folder of them always is."
        ),
    ] = False,
    report: ReportOption = None,
    seed: options.SeedOption = None,
    jobs: options.JobsOption = None,
    timeout: options.TimeoutOption = None,
    memory: options.MemoryOption = None,
    no_code: options.NoCodeOption = False,
    output: Annotated[
        EstimateFormat,
        typer.Option("--format", help="With json, stdout is exactly one JSON document."),
    ] = "text",
) -> int:
    """Estimate what a new policy would have earned, from a log.

    FILE is a log file, or a table with --context, --action, --reward and one --target option.
    Without --est all estimators run that can and are meant for it. Exit code 3: none has a value.
    """
    from ope_bench.execution.machine import available_cores
    from ope_bench.logs.log_data import LogSpec
    from ope_bench.logs.streamed import estimate_stream

    _check_report(report)
    asked: dict[str, Any] = {"level": level, "interval": interval, "seed": seed or 0}
    with exit_on_signals(), json_stdout(output) as emit:
        log = log_of(timeout, stream)
        if isinstance(log, LogSpec):
            if log.other_rewards:
                msg = "reward: one alone for rows in batches; estimate each"
                raise UsageError(msg)
            for name, value in {"sensitivity": sensitivity, "by": by}.items():
                if value:
                    msg = f"--{name}: not for rows in batches; sample rows into a log that fits"
                    raise UsageError(msg)
            cores = jobs or available_cores()
            result = estimate_stream(log, est, **asked, jobs=cores, timeout=timeout, memory=memory)
        else:
            with _executor(jobs, timeout, memory) as executor, _Fits() as fits:
                result = ope_bench.estimate(
                    log,
                    est,
                    **asked,
                    sensitivity=sensitivity,
                    by=by,
                    executor=executor,
                    on_event=fits,
                )
        if report is not None:
            source = result.source if isinstance(log, LogSpec) else log
            source.report(result, report)
            note(f"wrote {report}")
        emit(result.as_json())
    print_result(result, output)
    return result.exit_code


def print_result(result: Estimates | ByReward, output: EstimateFormat) -> None:
    """Print estimates; with json they are printed already, and only the notes follow."""
    from ope_bench.logs.result import csv_table
    from ope_bench.report.tables import render_csv, render_markdown

    if output == "text":
        _write_tables(result.tables())
    elif output == "markdown":
        write("\n".join(map(render_markdown, result.tables())).rstrip())
    else:
        if output == "csv":
            write(render_csv([csv_table(result)]).removesuffix("\n"))
        for line in result.notes:
            note(line)
