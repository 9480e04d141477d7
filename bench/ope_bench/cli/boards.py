"""``ope-bench leaderboard``, ``compare``, ``export`` and ``report``: what stored outcomes say."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ope_bench.base import exit_codes
from ope_bench.base.console import Format, json_stdout, note, use_color, width, write
from ope_bench.base.errors import UsageError, did_you_mean
from ope_bench.base.files import atomic_write, gc_disabled
from ope_bench.cli import options
from ope_bench.report import needs_extra
from ope_bench.report.figure_layout import CAPTIONS

if TYPE_CHECKING:
    from ope_bench.report.content import ReportData

# ``ope-bench compare``: two stores or baselines, trial by trial.


def compare_command(
    a: Annotated[Path, typer.Argument(metavar="A", help="A store or a baseline: before.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="A store or a baseline: after.")],
    output: Annotated[
        Literal["text", "json", "markdown"],
        typer.Option("--format", help="Form of the comparison."),
    ] = "text",
    fail_on: Annotated[
        Literal["worse"] | None,
        typer.Option(help="Exit with 1 if a row is worse, fails or is missing."),
    ] = None,
) -> int:
    """Compare two stores or baselines row by row.

    Prints ratio, interval and verdict of every row.

    Trials are paired by key, so both sides saw the same data. The exit code does not depend on
    verdicts, except with --fail-on.
    """
    from ope_bench.gate import session, verdict_tables

    with json_stdout(output) as emit:
        found = session.compare(a, b)
        emit(
            {
                "schema": 1,
                "a": str(a),
                "b": str(b),
                "pairs": found.pairs,
                "only_a": found.only_a,
                "only_b": found.only_b,
                "same_arithmetic": found.same_arithmetic,
                "rows": verdict_tables.judgements_json(found.judgements),
                "tracks": [vars(one) for one in found.tracks],
            }
        )
    failing = sum(one.verdict.fails for one in found.judgements)
    code = exit_codes.REGRESSION if fail_on and failing else exit_codes.CLEAN
    title = f"{a} -> {b}: {found.pairs} trials in both"
    if output == "json":
        return code
    if output == "markdown":
        write(verdict_tables.markdown_table(found.judgements, title, "", found.tracks).rstrip())
    else:
        table = verdict_tables.text_table(
            found.judgements, found.tracks, width=width(), color=use_color()
        )
        write(f"{title}\n{table.rstrip()}")
    if not found.same_arithmetic:
        note("other kernels or versions on either side: numbers are equal up to rounding (1e-9)")
    if found.only_a or found.only_b:
        note(f"without a partner: {found.only_a} trials of {a}, {found.only_b} of {b}")
    if code:
        note(f"exit    {code}: {failing} of {len(found.judgements)} rows are worse or fail")
    return code


# ``ope-bench export``: write all stored outcomes as one table.


def export_command(
    to: Annotated[Path, typer.Option("--to", help="A .parquet, .csv or .jsonl file.")],
    suite: options.SuiteOption = None,
    run: options.RunOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    output: options.FormatOption = Format.TEXT,
) -> int:
    """Write the newest outcome of every trial to a file."""
    from ope_bench.cli import stored_boards
    from ope_bench.store import Store, export

    write_rows = export.writer_for(to)
    with json_stdout(output) as emit:
        with Store.open(store) as opened:
            stored_boards.check_suite(opened, suite)
            with atomic_write(to, UsageError) as partial:
                rows = export.rows_of(opened.results(suite=suite, run=run))
                count = write_rows(partial, rows, opened.runs())
        emit({"schema": 1, "file": str(to), "rows": count, "columns": list(export.COLUMNS)})
    note(f"{count} rows in {to}")
    return 0


# ``ope-bench leaderboard``: boards of stored outcomes.


def leaderboard_command(
    by: Annotated[
        options.Measure, typer.Option(help="The measure that orders the rows.")
    ] = "rmse",
    suite: options.SuiteOption = None,
    run: options.RunOption = None,
    env: options.EnvOption = None,
    est: options.EstOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    columns: Annotated[
        str | None,
        typer.Option(
            "--columns",
            metavar="KEY,...",
            help="Show exactly these columns, in this order; 'help' lists them. Parameters are "
            "columns too: env_NAME of the environment, est_NAME of the estimator.",
        ),
    ] = None,
    sweep: Annotated[
        str | None,
        typer.Option(
            metavar="PARAM", help="Estimators along this parameter of the environment, by score."
        ),
    ] = None,
    average: Annotated[
        str | None,
        typer.Option(
            metavar="PARAM", help="One board over all values of this parameter of an environment."
        ),
    ] = None,
    beside: Annotated[
        list[Path] | None,
        typer.Option(
            "--with", metavar="FILE", help="With --by track: trials beside the store's, an export."
        ),
    ] = None,
    boards: options.BoardsOption = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Show the whole store, not the newest run's suite.")
    ] = False,
    output: Annotated[
        Literal["text", "json", "markdown", "csv", "latex"],
        typer.Option("--format", help="With json, stdout is one JSON document."),
    ] = "text",
) -> int:
    """Print the leaderboards of stored trials.

    Rows are computed from the newest outcome of every trial.

    Text shows the suite and seed of the newest run, or with --all the whole store; the other
    formats always have the whole store. With --by selection: selection among target policies on
    the same logs by their estimates. With --by regret: one board over all settings, errors over
    those of the best fixed choice. With --by track: one board for what estimators may know, over
    all settings and over those of weak, middle and strong signal. With --sweep: one table for each
    set of settings that differ in that parameter alone; --columns says what stands in its cells.
    """
    from ope_bench.boards.leaderboard import boards_document
    from ope_bench.boards.tracks import tracks_document
    from ope_bench.cli import stored_boards
    from ope_bench.report import boards as board_text

    form: Any = output
    if columns == "help":
        stored_boards.print_columns(by, form)
        return 0
    chosen = stored_boards.parse_columns(columns, by, form)
    if sweep is not None and by != "rmse":
        msg = f"--sweep: it is by rmse, not by {by}"
        raise UsageError(msg)
    if beside and by != "track":
        msg = f"--with: it is about --by track, not --by {by}"
        raise UsageError(msg)
    part = stored_boards.StorePart(
        store, suite, run, env or (), est or (), average=average, beside=beside or ()
    )
    whole = everything or suite or run or env or est
    swept: list[board_text.ParameterSweep] = []
    with json_stdout(output) as emit:
        if output == "text" and by not in stored_boards.OVER_SETTINGS and not whole:
            part = part.newest()
        found = part.boards(by)
        if by == "track":
            emit(tracks_document(found))
        elif by in stored_boards.OVER_SETTINGS:
            emit({"schema": 1, "boards": [{"by": by} | one.as_json() for one in found]})
        else:
            stored_boards.check_parameters(chosen, found)
            if sweep is not None and found:
                swept = board_text.parameter_sweeps(found, sweep)
            if output == "json":
                emit(board_text.sweep_json(swept) if sweep is not None else boards_document(found))
    if output == "json":
        return 0
    if not found:
        part.require_known()
        note(stored_boards.NOTHING.get(by, "no outcomes to show in {}").format(store))
        return 0
    if output == "text" and by == "rmse" and chosen is None and not swept:
        text = board_text.render_result(
            found, width=width(), color=use_color(), every_board=boards
        )
    else:
        shown: Any = swept or found
        text = board_text.render(shown, form, width=width(), color=use_color(), columns=chosen)
    write(text.rstrip("\n"))
    return 0


# ``ope-bench report``: write a page or figures.


def report_command(
    to: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write a self-contained HTML file.")
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(help="A folder for the charts as SVG, PNG and PDF.")
    ] = None,
    chart: Annotated[
        str | None,
        typer.Option(
            "--charts", metavar="KIND,...", help=f"Which figures: {', '.join(CAPTIONS)}."
        ),
    ] = None,
    est: options.EstOption = None,
    highlight: Annotated[
        list[str] | None,
        typer.Option(metavar="SPEC", help="An estimator that stands out in figures: your own."),
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(metavar="SPEC=TEXT", help="Name of an estimator in figures: my-ipw=Ours."),
    ] = None,
    size: Annotated[
        Literal["single", "double"],
        typer.Option(help="Width of figures, in columns of an article."),
    ] = "single",
    suite: options.SuiteOption = None,
    run: options.RunOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    output: options.FormatOption = Format.TEXT,
) -> int:
    """Write stored boards and charts as one HTML file, or figures.

    --charts, --est, --highlight, --label and --size are about figures. Each figure is an SVG, a
    PNG and a PDF, with its caption in a text file and in the SVG.
    """
    from ope_bench.cli.stored_boards import check_suite
    from ope_bench.report.content import ReportData
    from ope_bench.report.page.html import render_page
    from ope_bench.store import Store

    if to is None and figures is None:
        msg = "say what to write: -o FILE.html or --figures FOLDER"
        raise UsageError(msg)
    of_figures = {"charts": chart, "est": est, "highlight": highlight, "label": label}
    given = [name for name, value in of_figures.items() if value]
    if figures is None and (given or size != "single"):
        option = [*given, "size"][0]
        msg = f"--{option}: it is about figures; add --figures FOLDER"
        raise UsageError(msg)
    kinds = list(CAPTIONS) if chart is None else [word.strip() for word in chart.split(",")]
    for kind in kinds:
        if kind not in CAPTIONS:
            hint = did_you_mean(kind, CAPTIONS) or f" (there are {', '.join(CAPTIONS)})"
            msg = f"--charts: no kind of figure is called '{kind}'{hint}"
            raise UsageError(msg)
    needs_extra()
    with Store.open(store) as opened:
        check_suite(opened, suite)
    with json_stdout(output) as emit:
        drawn = None
        with gc_disabled():
            content = ReportData.read(store, suite=suite, run=run)
            if to is not None:
                page = render_page(content)
                with atomic_write(to, UsageError) as partial:
                    partial.write_text(page, encoding="utf-8")
            if figures is not None:
                # Imports Altair, which is in the extra.
                from ope_bench.report.figures import write_figures

                try:
                    drawn = write_figures(
                        content,
                        figures,
                        kinds=kinds,
                        labels=_labels(content, "--est", est) if est else None,
                        names=_names(content, label or []),
                        highlighted=_labels(content, "--highlight", highlight or []),
                        size=size,
                    )
                except OSError as exc:
                    msg = f"cannot write to {figures}: {exc.strerror or exc}"
                    raise UsageError(msg) from exc
        emit(
            {
                "schema": 1,
                "store": str(store),
                "file": None if to is None else str(to),
                "figures": [str(path) for path in drawn.paths] if drawn else [],
                "left_out": drawn.left_out if drawn else None,
            }
        )
    if to is not None:
        note(f"report in {to}, {to.stat().st_size / 1e6:.1f} MB")
    if drawn:
        note(f"{len(drawn.paths)} files of figures in {figures}")
        if drawn.left_out:
            note(drawn.left_out)
    return 0


def _names(content: ReportData, given: list[str]) -> dict[str, str]:
    """Return the texts of ``--label``, by the label that each replaces."""
    names: dict[str, str] = {}
    for text in given:
        selector, separator, name = text.rpartition("=")
        if not (separator and name.strip()):
            msg = f"--label: write {text.rstrip('=') or 'SPEC'}=TEXT"
            raise UsageError(msg)
        labels = _labels(content, "--label", [selector])
        if len(labels) > 1 or name in names.values():
            several = ", ".join(labels) if len(labels) > 1 else "two estimators"
            msg = f"--label: '{name}' would name {several}; name one with its parameters"
            raise UsageError(msg)
        names[labels[0]] = name.strip()
    return names


def _labels(content: ReportData, option: str, selectors: list[str]) -> list[str]:
    """Return the labels of the estimators that one of the selectors names."""
    from ope_bench.suites.manifest import selects
    from ope_bench.suites.suite import parse_selector

    labels = []
    for text in selectors:
        selector = parse_selector(text)
        found = [one for one in content.estimators if selects(selector, one.spec)]
        # Of an id that is another's alias, that of the estimator that has it.
        own = [one for one in found if one.estimator == selector.reference]
        named = [one.label for one in own or found]
        if not named:
            hint = did_you_mean(selector.reference, {one.estimator for one in content.estimators})
            msg = f"{option}: no outcome of '{text}' is in the store{hint}"
            raise UsageError(msg)
        labels += named
    return labels
