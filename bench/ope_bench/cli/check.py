"""``ope-bench check``: the conformance checks of a plugin or of a log format."""

from __future__ import annotations

import contextlib
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ope_bench.base.console import Format, json_stdout, note, width, write
from ope_bench.base.errors import PluginError, UsageError, did_you_mean
from ope_bench.base.exit_codes import CLEAN, EMPTY, REGRESSION
from ope_bench.base.printable import printable
from ope_bench.cli import options
from ope_bench.plugins.registry import GROUPS, file_hint, registry

if TYPE_CHECKING:
    from ope_bench.testing import CheckResult

# ``ope-bench check``: run the conformance checks on a plugin.

MARGIN = 18
NAMES_SHOWN = 3

CENTRAL = {
    "check_same_seed_gives_the_same_estimate",
    "check_same_streams_give_the_same_problem",
}
"""Checks that can run on every plugin whose dependencies are there."""


def check_command(
    spec: Annotated[
        str,
        typer.Argument(metavar="ID", help="ipw, 'ipw[clip=10]', acme-ope:ipw or ./my.py:MyIPW."),
    ],
    timeout: Annotated[float, options.duration("60s", help="Time limit per check.")] = 60.0,
    output: options.FormatOption = Format.TEXT,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show passed and skipped checks, too.")
    ] = False,
) -> int:
    """Run the conformance checks on a plugin or a log format.

    Exits with 1 if a check fails, with 4 if nothing could be checked. What the docstring of a
    plugin of yours lacks is advice. A check that takes too long fails and is the last, because
    the others would wait for the same.
    """
    from ope_bench.trials.isolation import isolated, seeding_of_torch
    from ope_bench.trials.process_settings import ProcessSettings

    results: list[CheckResult] = []
    with json_stdout(output) as emit:
        kind, name, checks = checks_of(spec)
        total = len(checks.checks)
        if output is Format.TEXT:
            note(f"checking {kind} {name} ({total} checks)")
        with _live_line(shown=output is Format.TEXT) as show:
            for number, (check, run) in enumerate(checks.runs(timeout), start=1):
                show(f"{number:>3}/{total}  {_words(check)}")
                # Output of the plugin is not part of the report.
                with isolated(0), ProcessSettings().watched(seeding_of_torch(0)):
                    results.append(run())
                if results[-1].timed_out:
                    break
        counts = Counter(one.result for one in results)
        # Checks of parameters and docstrings always run; one of a result must have run too.
        skipped = {one.name: one.message for one in results if one.result == "skipped"}
        code = REGRESSION if any(one.bad for one in results) else CLEAN
        if code == CLEAN and skipped.keys() & CENTRAL:
            code = EMPTY
        emit(
            {
                "schema": 1,
                "kind": kind,
                "id": name,
                "checks": [asdict(one) for one in results],
                "counts": dict(counts),
                "not_run": total - len(results),
                "exit_code": code,
            }
        )
    if output is Format.TEXT:
        for line in check_lines(results, width(), verbose=verbose):
            write(line)
        seconds = sum(one.seconds for one in results)
        summary = ", ".join(f"{count} {result}" for result, count in counts.items())
        summary += f", {total - len(results)} not run" if len(results) < total else ""
        write(f"{name}: {summary} in {seconds:.1f} s")
        if code == EMPTY:
            note(f"nothing could be computed: {[*skipped.values()][-1]}")
    return code


def checks_of(spec: str) -> tuple[str, str, Any]:
    """Return kind, id and checks of the named plugin."""
    from ope_bench.plugins.spec import resolve
    from ope_bench.suites.suite import parse_selector
    from ope_bench.testing import environment_checks, estimator_checks
    from ope_bench.trials.trial import build_checked

    selector = parse_selector(spec)
    reference = selector.reference
    try:
        plugins = registry().named(reference)
    except PluginError:
        # A class in a file may be a log format.
        with contextlib.suppress(UsageError):
            return _checks_of_format(reference)
        raise
    if len(plugins) > 1:
        msg = f"'{reference}' is both an environment and an estimator; rename one of them"
        raise PluginError(msg)
    if not plugins:
        with contextlib.suppress(UsageError):
            return _checks_of_format(reference)
        known = [plugin.id for kind in GROUPS for plugin in registry().plugins(kind)]
        hint = did_you_mean(reference, known) or "; `ope-bench list` lists all"
        if reference.endswith(".py"):
            hint = f"; {file_hint(reference)}"
        msg = f"no estimator, environment or log format is called '{reference}'{hint}"
        raise PluginError(msg)
    kind = plugins[0].kind
    found = resolve(kind, reference, selector.params)
    checks: Any = environment_checks if kind == "environment" else estimator_checks
    return kind, found.id, checks(build_checked(found))


def _checks_of_format(name: str) -> tuple[str, str, Any]:
    from ope_bench.logs.formats import log_format, log_format_checks

    return "log format", name, log_format_checks(log_format(name))


@contextlib.contextmanager
def _live_line(*, shown: bool) -> Iterator[Any]:
    """Yield a function that shows a text on the last line of a terminal; elsewhere nothing."""
    # Isolated checks replace sys.stderr.
    stream = sys.stderr
    if not (shown and stream.isatty()):
        yield lambda text: None
        return

    def show(text: str) -> None:
        stream.write(f"\r\x1b[K{text[: width() - 1]}")
        stream.flush()

    try:
        yield show
    finally:
        show("")


def check_lines(results: Sequence[CheckResult], width: int, *, verbose: bool) -> Iterator[str]:
    """Yield the lines of a report: failures, those of one reason together, and advice.

    Parameters
    ----------
    results : of the checks, in the order of running.
    width : columns of the terminal.
    verbose : show what passed or was skipped, too.
    """
    reasons: dict[tuple[str, str], list[CheckResult]] = {}
    for one in results:
        if one.bad:
            reasons.setdefault((one.result, one.reason), []).append(one)
        elif verbose:
            yield from _lines(one.result, _words(one.name), one.message, width)
    for (result, _), group in reasons.items():
        head = _words(group[0].name)
        if len(group) > 1:
            names = [_words(one.name) for one in group]
            if not verbose and len(names) > NAMES_SHOWN:
                names[NAMES_SHOWN - 1] += f" and {len(names) - NAMES_SHOWN} more"
                del names[NAMES_SHOWN:]
            result, head = f"{len(group)} {result}", f"for one reason: {', '.join(names)}"
        yield from _lines(result, head, group[0].message, width)
    if not verbose:
        for one in results:
            if one.result == "advice":
                yield from _lines(one.result, _words(one.name), one.message, width)
        for one in results:
            if one.result == "expected failure":
                yield from _lines(one.result, f"{_words(one.name)}: {one.message}", "", width)


def _words(name: str) -> str:
    """Return the sentence that names a check."""
    return name.replace("check_", "", 1).replace("_", " ")


def _lines(result: str, head: str, message: str, width: int) -> Iterator[str]:
    room = max(40, width) - MARGIN
    first, *rest = textwrap.wrap(printable(head), room) or [""]
    yield f"{result:>{MARGIN - 2}}  {first}"
    for line in [*rest, *textwrap.wrap(printable(message), room)]:
        yield " " * MARGIN + line
