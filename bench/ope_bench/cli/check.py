"""``ope-bench check``: does a plugin keep the contract?"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import Annotated, Any, cast

import typer

from ope_bench.cli.exit_codes import CLEAN, EMPTY, REGRESSION
from ope_bench.cli.output import Format, FormatOption, document, note, width, write

__all__ = ["check"]


def check(
    spec: Annotated[
        str,
        typer.Argument(metavar="ID", help="ipw, 'ipw[clip=10]', acme-ope:ipw or ./my.py:MyIPW."),
    ],
    output: FormatOption = Format.TEXT,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show the checks that pass, too.")
    ] = False,
) -> int:
    """Run the conformance checks on one estimator or environment.

    Exits with 1 where a check fails, with 4 where nothing could be checked.
    """
    from ope_bench.isolation import isolated
    from ope_bench.testing import Outcome

    outcomes: list[Outcome] = []
    with document(output) as emit:
        kind, name, checks = _checks(spec)
        if output is Format.TEXT:
            note(f"checking {kind} {name} ({len(checks.checks)} checks)")
        running = checks.outcomes()
        while True:
            # What the plugin prints is not part of the report.
            with isolated(0):
                outcome = next(running, None)
            if outcome is None:
                break
            outcomes.append(outcome)
            if output is Format.TEXT and (verbose or outcome.message):
                _show(outcome, verbose)
        counts = Counter(outcome.result for outcome in outcomes)
        code = _exit_code(outcomes)
        emit(
            {
                "schema": 1,
                "kind": kind,
                "id": name,
                "checks": [asdict(outcome) for outcome in outcomes],
                "counts": dict(counts),
                "exit_code": code,
            }
        )
    if output is Format.TEXT:
        seconds = sum(outcome.seconds for outcome in outcomes)
        told = ", ".join(f"{count} {result}" for result, count in counts.items())
        write(f"{name}: {told} in {seconds:.1f} s")
        if code == EMPTY:
            [*_, last] = [one.message for one in outcomes if one.result == "skipped"]
            note(f"nothing could be computed: {last}")
    return code


def _checks(spec: str) -> tuple[str, str, Any]:
    """Kind, id and checks of what the user named."""
    from ope_bench.errors import PluginError
    from ope_bench.registry import GROUPS, Kind, registry
    from ope_bench.resolve import resolve
    from ope_bench.selector import parse_selector
    from ope_bench.testing import environment_checks, estimator_checks
    from ope_bench.trial import build

    selector = parse_selector(spec)
    reference = selector.reference
    kinds = [
        kind
        for kind in GROUPS
        if reference in {name for p in registry().plugins(kind) for name in (p.id, p.reference)}
    ]
    if len(kinds) > 1:
        msg = f"'{reference}' is both an environment and an estimator; rename one of them"
        raise PluginError(msg)
    kind = kinds[0] if kinds else _kind_in_file(reference)
    found = resolve(cast(Kind, kind), reference, selector.params)
    plugin = build(found)
    checks: Any = environment_checks if kind == "environment" else estimator_checks
    return kind, found.id, checks(plugin)


def _kind_in_file(reference: str) -> str:
    """The kind of a class in a file, or of the nearest name for the message."""
    from ope_bench.errors import PluginError, did_you_mean
    from ope_bench.registry import GROUPS, registry

    if not reference.rpartition(":")[0].endswith(".py"):
        known = [plugin.id for kind in GROUPS for plugin in registry().plugins(kind)]
        hint = did_you_mean(reference, known) or "; `ope-bench list` shows what there is"
        msg = f"no estimator or environment is called '{reference}'{hint}"
        raise PluginError(msg)
    try:
        registry().find("environment", reference)
    except PluginError:
        # The other attempt gives the message if that fails too.
        return "estimator"
    return "environment"


def _show(outcome: Any, verbose: bool) -> None:
    import textwrap

    if outcome.result in ("passed", "skipped", "expected failure") and not verbose:
        return
    words = outcome.name.replace("check_", "", 1).replace("_", " ")
    write(f"{outcome.result:>16}  {words}")
    for line in textwrap.wrap(outcome.message, max(40, width()) - 18):
        write(" " * 18 + line)


def _exit_code(outcomes: list[Any]) -> int:
    if any(outcome.bad for outcome in outcomes):
        return REGRESSION
    # Parameters and docstrings can always be checked; something must have been computed as well.
    skipped = {outcome.name for outcome in outcomes if outcome.result == "skipped"}
    central = {
        "check_same_seed_gives_the_same_estimate",
        "check_same_streams_give_the_same_problem",
    }
    return EMPTY if central & skipped else CLEAN
