"""``ope-bench report``: write a page or figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ope_bench.base.console import Format, json_stdout, note
from ope_bench.base.errors import UsageError, did_you_mean
from ope_bench.base.files import atomic_write, gc_disabled
from ope_bench.cli import options
from ope_bench.report import needs_extra
from ope_bench.report.figure_layout import CAPTIONS

if TYPE_CHECKING:
    from ope_bench.report.content import ReportData


def report_command(
    to: Annotated[
        Path | None, typer.Option("-o", "--output", help="The HTML file; it needs no other files.")
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
    size: Annotated[
        Literal["single", "double"],
        typer.Option(help="Width of figures, in columns of an article."),
    ] = "single",
    suite: options.SuiteOption = None,
    run: options.RunOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    output: options.FormatOption = Format.TEXT,
) -> int:
    """Write a store's boards, charts and trials as one HTML file, or figures.

    --charts, --est and --size are about figures. Each figure is an SVG, a PNG and a PDF, with its
    caption in a text file and in the SVG.
    """
    from ope_bench.cli.stored_boards import check_suite
    from ope_bench.report.content import ReportData
    from ope_bench.report.page.html import render_page
    from ope_bench.report.page.libraries import vega_in_background
    from ope_bench.store import Store

    if to is None and figures is None:
        msg = "say what to write: -o FILE.html or --figures FOLDER"
        raise UsageError(msg)
    if figures is None and (chart or est or size != "single"):
        option = "--charts" if chart else "--est" if est else "--size"
        msg = f"{option}: it is about figures; add --figures FOLDER"
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
            if to is None:
                content = ReportData.read(store, suite=suite, run=run)
            else:
                with vega_in_background() as script:
                    content = ReportData.read(store, suite=suite, run=run)
                    page = render_page(content, script=script)
                    with atomic_write(to, UsageError) as partial:
                        partial.write_text(page, encoding="utf-8")
            if figures is not None:
                # Imports Altair, which is in the extra.
                from ope_bench.report.figures import write_figures

                labels = _labels(content, est) if est else None
                try:
                    drawn = write_figures(content, figures, kinds=kinds, labels=labels, size=size)
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


def _labels(content: ReportData, selectors: list[str]) -> list[str]:
    """Return the labels of the estimators that one of the selectors names."""
    from ope_bench.suites.manifest import selects
    from ope_bench.suites.suite import parse_selector

    labels = []
    for text in selectors:
        selector = parse_selector(text)
        named = [one.label for one in content.estimators if selects(selector, one.spec)]
        if not named:
            hint = did_you_mean(selector.reference, {one.estimator for one in content.estimators})
            msg = f"--est: no outcome of '{text}' is in the store{hint}"
            raise UsageError(msg)
        labels += named
    return labels
