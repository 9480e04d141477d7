"""``ope-bench report``: write a page or figures, or serve a page that follows a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ope_bench.cli.options import (
    DEFAULT_STORE,
    EstOption,
    StoreOption,
    check_suite,
    one_of,
    option_error,
)
from ope_bench.console.output import Format, FormatOption, document, note, write
from ope_bench.errors import UsageError, did_you_mean
from ope_bench.report.figures.captions import CAPTIONS

if TYPE_CHECKING:
    from ope_bench.report.content import ReportData
    from ope_bench.report.figures.files import WrittenFigures

__all__ = ["command"]


def command(
    to: Annotated[
        Path | None, typer.Option("-o", "--output", help="The HTML file; it needs no other files.")
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(help="A folder for the charts as SVG, PNG and PDF.")
    ] = None,
    serve: Annotated[
        bool, typer.Option("--serve", help="Show the page on loopback, following the store.")
    ] = False,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of --serve; 0 takes any free one.")
    ] = 0,
    chart: Annotated[
        str | None,
        typer.Option(
            "--charts", metavar="KIND,...", help=f"Which figures: {', '.join(CAPTIONS)}."
        ),
    ] = None,
    est: EstOption = None,
    size: Annotated[
        str, one_of(("single", "double"), help="Width of figures, in columns of an article.")
    ] = "single",
    suite: Annotated[str | None, typer.Option(help="Only outcomes of runs of this suite.")] = None,
    run: Annotated[str | None, typer.Option(help="Only outcomes of this run.")] = None,
    store: StoreOption = DEFAULT_STORE,
    output: FormatOption = Format.TEXT,
) -> int:
    """Write a store's boards, charts and trials as one HTML file, or figures, or serve them.

    --charts, --est and --size are about figures. Each figure is an SVG, a PNG and a PDF, with its
    caption in a text file and in the SVG.
    """
    from ope_bench.report.requirements import needs_extra
    from ope_bench.store import Store

    if to is None and figures is None and not serve:
        msg = "say what to write: -o FILE.html, --figures FOLDER or --serve"
        raise UsageError(msg)
    if figures is None and (chart or est or size != "single"):
        option = "--charts" if chart else "--est" if est else "--size"
        reason = "it is about figures; add --figures FOLDER"
        raise option_error(option, reason)
    kinds = _kinds(chart)
    wanted = None if figures is None else _Figures(figures, kinds, est or (), size)
    needs_extra()
    with Store.open(store) as opened:
        check_suite(opened, suite)
    with document(output) as emit:
        drawn = _write_requested(store, suite, run, to, wanted)
        left_out = drawn.left_out if drawn else None
        emit(
            {
                "schema": 1,
                "store": str(store),
                "file": None if to is None else str(to),
                "figures": [str(path) for path in drawn.paths] if drawn else [],
                "left_out": left_out,
            }
        )
    if to is not None:
        note(f"report in {to}, {to.stat().st_size / 1e6:.1f} MB")
    if drawn:
        note(f"{len(drawn.paths)} files of figures in {figures}")
        if left_out:
            note(left_out)
    if serve:
        _serve(store, suite, run, port)
    return 0


@dataclass(frozen=True)
class _Figures:
    """The figures to write."""

    folder: Path
    kinds: Sequence[str]
    estimators: Sequence[str]
    size: Any


def _kinds(text: str | None) -> list[str]:
    """Parse ``--charts sweep,pareto``."""
    if text is None:
        return list(CAPTIONS)
    kinds = [word.strip() for word in text.split(",")]
    for kind in kinds:
        if kind not in CAPTIONS:
            hint = did_you_mean(kind, CAPTIONS) or f" (there are {', '.join(CAPTIONS)})"
            reason = f"no kind of figure is called '{kind}'{hint}"
            option = "--charts"
            raise option_error(option, reason)
    return kinds


def _write_requested(
    store: Path, suite: str | None, run: str | None, to: Path | None, figures: _Figures | None
) -> WrittenFigures | None:
    """Write the requested files; return the figures."""
    from ope_bench.garbage import gc_disabled
    from ope_bench.report.content import ReportData
    from ope_bench.report.page.vega import vega_in_background

    with gc_disabled():
        if to is None:
            content = ReportData.read(store, suite=suite, run=run)
        else:
            with vega_in_background() as script:
                content = ReportData.read(store, suite=suite, run=run)
                _write_page(content, to, script)
        return _write_figures(content, figures) if figures is not None else None


def _write_page(content: ReportData, to: Path, script: Callable[[], str]) -> None:
    from ope_bench.files import atomic_write
    from ope_bench.report.page.html import render_page

    page = render_page(content, script=script)
    with atomic_write(to, UsageError) as partial:
        partial.write_text(page, encoding="utf-8")


def _write_figures(content: ReportData, wanted: _Figures) -> WrittenFigures:
    from ope_bench.report.figures.files import write_figures

    labels = _labels(content, wanted.estimators) if wanted.estimators else None
    try:
        return write_figures(
            content, wanted.folder, kinds=wanted.kinds, labels=labels, size=wanted.size
        )
    except OSError as exc:
        msg = f"cannot write to {wanted.folder}: {exc.strerror or exc}"
        raise UsageError(msg) from exc


def _labels(content: ReportData, estimators: Sequence[str]) -> list[str]:
    """Return the labels of the estimators that one of the selectors names."""
    from ope_bench.plugins.spec import PluginSpec
    from ope_bench.suites.manifest import selects
    from ope_bench.suites.selector import parse_selector

    found = []
    for text in estimators:
        selector = parse_selector(text)
        named = [
            one.label
            for one in content.methods
            if selects(selector, PluginSpec("estimator", one.estimator, one.estimator, one.params))
        ]
        if not named:
            hint = did_you_mean(selector.reference, {one.estimator for one in content.methods})
            option, reason = "--est", f"no outcome of '{text}' is in the store{hint}"
            raise option_error(option, reason)
        found += named
    return found


def _serve(store: Path, suite: str | None, run: str | None, port: int) -> None:
    from ope_bench.report.page.serve import LOOPBACK, Live, server

    try:
        serving = server(Live(store, suite, run), port)
    except OSError as exc:
        msg = f"--port {port}: {exc.strerror or exc}"
        raise UsageError(msg) from exc
    with serving:
        write(f"http://{LOOPBACK}:{serving.server_address[1]}/ follows {store}; Ctrl-C ends it")
        try:
            serving.serve_forever()
        except KeyboardInterrupt:
            note("stopped")
