"""Figures as files: SVG, PNG and PDF, with the caption in a text file and in the SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ope_bench.errors import UsageError
from ope_bench.files import atomic_write
from ope_bench.report.charts.estimator_styles import Style, apply, styles_of
from ope_bench.report.charts.short_labels import short_labels
from ope_bench.report.content import ReportData
from ope_bench.report.figures.captions import with_caption
from ope_bench.report.figures.figures import (
    KINDS,
    MOST_SETTINGS,
    MOST_SWEEPS,
    Figure,
    Size,
    figures,
)
from ope_bench.report.figures.file_names import file_names
from ope_bench.report.figures.print_style import POINT, Legend, config
from ope_bench.report.requirements import needs_extra
from ope_bench.report.sweeps import sweeps

__all__ = ["FORMATS", "WrittenFigures", "figure_spec", "looks_of", "write_figures"]

FORMATS = ("svg", "png", "pdf")


@dataclass(frozen=True)
class WrittenFigures:
    """The written figures.

    Parameters
    ----------
    paths : the files.
    left_out : which figures were omitted, in one line; None if none.
    """

    paths: tuple[Path, ...]
    left_out: str | None = None


def write_figures(
    content: ReportData,
    folder: Path,
    *,
    kinds: Sequence[str] = KINDS,
    labels: Sequence[str] | None = None,
    size: Size = "single",
) -> WrittenFigures:
    """Write every chart that has data, in every format.

    Parameters
    ----------
    content : the data of the report.
    folder : created if missing.
    kinds : of figures.
    labels : labels of the estimators to show, None for all.
    size : one or two columns wide.

    Raises
    ------
    UsageError : the extra ``report`` is not installed, or a file cannot be written.
    """
    needs_extra()
    import vl_convert

    folder.mkdir(parents=True, exist_ok=True)
    short, looks = looks_of(content)
    shown = {label: short[label] for label in short if labels is None or label in labels}
    drawn = list(figures(content, shown, kinds=kinds, size=size))
    written = []
    for stem, figure in zip(file_names([one.subject for one in drawn]), drawn, strict=True):
        svg = vl_convert.vegalite_to_svg(figure_spec(figure, looks))
        files = {
            "svg": with_caption(svg, figure.caption).encode(),
            "png": vl_convert.svg_to_png(svg, ppi=300),
            "pdf": vl_convert.svg_to_pdf(svg),
            "txt": f"{figure.caption}\n".encode(),
        }
        for form, data in files.items():
            path = folder / f"{stem}.{form}"
            with atomic_write(path, UsageError) as partial:
                partial.write_bytes(data)
            written.append(path)
    return WrittenFigures(tuple(written), _left_out(content))


def looks_of(content: ReportData) -> tuple[dict[str, str], dict[str, Style]]:
    """Return short labels by label, and the styles of all estimators by short label."""
    short = short_labels([method.label for method in content.methods])
    ids = {short[method.label]: method.estimator for method in content.methods}
    return short, styles_of(ids)


def figure_spec(figure: Figure, looks: Mapping[str, Style]) -> dict[str, Any]:
    """Return the Vega-Lite specification of a figure, with its data and in its final style.

    Parameters
    ----------
    figure : the figure.
    looks : styles by short label.
    """
    spec: dict[str, Any] = figure.chart.to_dict(validate=False)
    present = {line.get("method") for lines in figure.data.values() for line in lines}
    chosen = {label: style for label, style in looks.items() if label in present}
    apply(spec, chosen, "white")
    below = Legend.of(list(chosen), figure.symbol or POINT)
    if figure.symbol and figure.kind != "times":
        spec["height"] += below.height
    data = {name: [dict(line) for line in lines] for name, lines in figure.data.items()}
    return spec | {"config": config() | below.config(), "datasets": data}


def _left_out(content: ReportData) -> str | None:
    parts = []
    if len(content.settings) > MOST_SETTINGS:
        parts.append(
            f"single settings: the first {MOST_SETTINGS} of {len(content.settings)} drawn"
        )
    if (found := len(sweeps(content.settings))) > MOST_SWEEPS:
        parts.append(f"sweeps: the longest {MOST_SWEEPS} of {found} drawn")
    return f"{'; '.join(parts)}; --suite or --run selects others" if parts else None
