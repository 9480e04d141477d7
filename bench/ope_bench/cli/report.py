"""``ope-bench report``: a page, figures for a paper, or a page that follows a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ope_bench.cli.options import DEFAULT_STORE, StoreOption
from ope_bench.cli.output import Format, FormatOption, document, note, write
from ope_bench.errors import UsageError

if TYPE_CHECKING:
    from ope_bench.report.content import Content
    from ope_bench.report.figures import Drawn

__all__ = ["report"]


def report(
    to: Annotated[
        Path | None, typer.Option("-o", "--output", help="The HTML file, complete in itself.")
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(help="A folder for the charts as SVG, PNG and PDF.")
    ] = None,
    serve: Annotated[
        bool, typer.Option("--serve", help="Show the page on loopback, following the store.")
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="For --serve; 0: any.")] = 0,
    suite: Annotated[str | None, typer.Option(help="Only what runs of this suite hold.")] = None,
    run: Annotated[str | None, typer.Option(help="Only what this run holds.")] = None,
    store: StoreOption = DEFAULT_STORE,
    output: FormatOption = Format.TEXT,
) -> int:
    """Write a store's boards, charts and trials as one HTML file, or figures, or serve them."""
    from ope_bench.report.html import needs_extra

    if to is None and figures is None and not serve:
        msg = "say what to make: -o FILE.html, --figures FOLDER or --serve"
        raise UsageError(msg)
    needs_extra()
    _known(store, suite)
    with document(output) as emit:
        drawn = _made(store, suite, run, to, figures)
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


def _known(store: Path, suite: str | None) -> None:
    """Complain of a suite of which no run is stored, before anything is written."""
    from ope_bench.errors import did_you_mean
    from ope_bench.store import Store

    with Store.open(store) as opened:
        if told := opened.without_runs_of(suite):
            held = {run.suite for run in opened.runs()}
            raise UsageError(told + did_you_mean(str(suite), held))


def _made(
    store: Path, suite: str | None, run: str | None, to: Path | None, figures: Path | None
) -> Drawn | None:
    """Write what was asked for; which figures."""
    from ope_bench.report.content import uncollected

    with uncollected():
        return _written(store, suite, run, to, figures)


def _written(
    store: Path, suite: str | None, run: str | None, to: Path | None, figures: Path | None
) -> Drawn | None:
    from ope_bench.report.content import Content
    from ope_bench.report.vega import vega_meanwhile

    if to is None:
        content = Content.read(store, suite=suite, run=run)
    else:
        with vega_meanwhile() as script:
            content = Content.read(store, suite=suite, run=run)
            _write_page(content, to, script)
    return _write_figures(content, figures) if figures is not None else None


def _write_page(content: Content, to: Path, script: Callable[[], str]) -> None:
    from ope_bench.report.html import render_page
    from ope_bench.whole_files import written_whole

    page = render_page(content, script=script)
    with written_whole(to, UsageError) as partial:
        partial.write_text(page, encoding="utf-8")


def _write_figures(content: Content, folder: Path) -> Drawn:
    from ope_bench.report.figures import write_figures

    try:
        return write_figures(content, folder)
    except OSError as exc:
        msg = f"cannot write to {folder}: {exc.strerror or exc}"
        raise UsageError(msg) from exc


def _serve(store: Path, suite: str | None, run: str | None, port: int) -> None:
    from ope_bench.report.serve import LOOPBACK, Live, server

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
