"""``ope-bench check``: run the conformance checks on a plugin."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ope_bench.cli.exit_codes import CLEAN, EMPTY, REGRESSION
from ope_bench.cli.options import duration
from ope_bench.cli.running.check_report import LiveLine, check_lines
from ope_bench.console.output import Format, FormatOption, document, note, width, write

if TYPE_CHECKING:
    from ope_bench.testing import CheckResult

__all__ = ["command"]


def command(
    spec: Annotated[
        str,
        typer.Argument(metavar="ID", help="ipw, 'ipw[clip=10]', acme-ope:ipw or ./my.py:MyIPW."),
    ],
    timeout: Annotated[
        str, typer.Option(metavar="60s", help="Longest time of each check.")
    ] = "60s",
    output: FormatOption = Format.TEXT,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show passed checks, too.")
    ] = False,
) -> int:
    """Run the conformance checks on one estimator or environment.

    Exits with 1 if a check fails, with 4 if nothing could be checked. A check that takes too long
    fails and is the last, because the others would wait for the same.
    """
    limit = duration("--timeout", timeout)
    with document(output) as emit:
        kind, name, checks = _checks(spec)
        total = len(checks.checks)
        if output is Format.TEXT:
            note(f"checking {kind} {name} ({total} checks)")
        outcomes = _outcomes(checks, limit, total if output is Format.TEXT else 0)
        counts = Counter(outcome.result for outcome in outcomes)
        code = _exit_code(outcomes)
        emit(
            {
                "schema": 1,
                "kind": kind,
                "id": name,
                "checks": [asdict(outcome) for outcome in outcomes],
                "counts": dict(counts),
                "not_run": total - len(outcomes),
                "exit_code": code,
            }
        )
    if output is Format.TEXT:
        for line in check_lines(outcomes, width(), verbose=verbose):
            write(line)
        seconds = sum(outcome.seconds for outcome in outcomes)
        told = ", ".join(f"{count} {result}" for result, count in counts.items())
        told += f", {total - len(outcomes)} not run" if len(outcomes) < total else ""
        write(f"{name}: {told} in {seconds:.1f} s")
        if code == EMPTY:
            [*_, last] = [one.message for one in outcomes if one.result == "skipped"]
            note(f"nothing could be computed: {last}")
    return code


def _outcomes(checks: Any, timeout: float | None, shown: int) -> list[CheckResult]:
    """Run the checks; with ``shown`` of them, a terminal shows which one runs."""
    from ope_bench.trials.process.isolation import isolated
    from ope_bench.trials.process.settings import ProcessSettings

    outcomes: list[CheckResult] = []
    line = LiveLine(shown, width()) if shown else None
    for check in checks.runs(timeout):
        if line:
            line.next(check.name)
        # Output of the plugin is not part of the report.
        settings = ProcessSettings()
        with isolated(0, settings=settings):
            outcomes.append(check.run())
        settings.restore()
        if outcomes[-1].timed_out:
            break
    if line:
        line.clear()
    return outcomes


def _checks(spec: str) -> tuple[str, str, Any]:
    """Return kind, id and checks of the named plugin."""
    from ope_bench.errors import PluginError, did_you_mean
    from ope_bench.plugins.registry import GROUPS, file_hint, registry
    from ope_bench.plugins.resolution import resolve
    from ope_bench.suites.selector import parse_selector
    from ope_bench.testing import environment_checks, estimator_checks
    from ope_bench.trials.building import build_checked

    selector = parse_selector(spec)
    reference = selector.reference
    plugins = registry().named(reference)
    if len(plugins) > 1:
        msg = f"'{reference}' is both an environment and an estimator; rename one of them"
        raise PluginError(msg)
    if not plugins:
        known = [plugin.id for kind in GROUPS for plugin in registry().plugins(kind)]
        hint = did_you_mean(reference, known) or "; `ope-bench list` lists all"
        if reference.endswith(".py"):
            hint = f"; {file_hint(reference)}"
        msg = f"no estimator or environment is called '{reference}'{hint}"
        raise PluginError(msg)
    kind = plugins[0].kind
    found = resolve(kind, reference, selector.params)
    plugin = build_checked(found)
    checks: Any = environment_checks if kind == "environment" else estimator_checks
    return kind, found.id, checks(plugin)


def _exit_code(outcomes: list[Any]) -> int:
    if any(outcome.bad for outcome in outcomes):
        return REGRESSION
    # Checks of parameters and docstrings always run; at least one other check must have run too.
    skipped = {outcome.name for outcome in outcomes if outcome.result == "skipped"}
    central = {
        "check_same_seed_gives_the_same_estimate",
        "check_same_streams_give_the_same_problem",
    }
    return EMPTY if central & skipped else CLEAN
