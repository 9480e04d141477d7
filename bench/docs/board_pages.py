"""Sphinx extension: the home page's leaderboard, and a page for each committed suite."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from committed import (
    FIGURES,
    RESULTS,
    TRACKS,
    Track,
    boards_of,
    folders_with_boards,
    lines_of,
)
from field_charts import comparison_chart, ratio_bar
from filtered_board import filtered_board
from ope_bench.base.errors import OpeBenchError
from ope_bench.boards.board import Board
from ope_bench.boards.over_settings import summaries
from ope_bench.report.figure_layout import CAPTIONS
from ope_bench.suites.suite import find_suite
from plugin_pages import LEADER_HEAD, built_in, leader_cells, page_name, write_pages
from readme_tables import markdown_table

if TYPE_CHECKING:
    from sphinx.application import Sphinx

__all__ = ["board_name", "board_pages", "setup"]

HOME = "bench/docs/index"
RESULTS_PAGE = "results/README"
LEADERBOARD_PAGE = "results/leaderboard"
FIRST_TRACK = 1
"""The track whose tab is open at first, which is that of the figure."""

KINDS = {
    "sweep-rmse": "Along a parameter",
    "ranks": "Ranks",
    "coverage": "Intervals",
    "positivity": "Failures",
    "pareto": "Error against time",
    "times": "Times",
}
"""Kinds of figures, as files begin, with their headings; in the order of a page."""

FOLDED = ("pareto", "times")
"""Kinds that a page shows when asked."""

LEFT_OUT = ("sweep-log10-rmse-", "intervals-")
"""Kinds that say once more what another shows; ``ope-bench report`` draws them."""

WIDE = 300
"""Width of a figure, in points, from which it has a row of its own."""

MARK = "<!-- leaderboard -->"
HOME_ROWS = 12
COMPARED = ("dm", "dr-os", "dr", "ipw", "logging-average")
"""Estimators of the home page's figure: one of each family, and what needs no estimator."""


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("builder-inited", _write)
    app.connect("source-read", _fill_home)
    return {"parallel_read_safe": True}


def _write(app: Sphinx) -> None:
    write_pages(Path(app.srcdir) / "bench" / "docs", board_pages())


def _fill_home(app: Sphinx, page: str, content: list[str]) -> None:
    if page == HOME:
        content[0] = content[0].replace(MARK, home_boards())
    elif page == LEADERBOARD_PAGE:
        before, mark, after = content[0].partition("\n## ")
        content[0] = f"{before}\n{filtered_board()}{mark.lstrip()}{after}"
    elif page == RESULTS_PAGE:
        content[0] += _other_results(app.env.found_docs)


def _other_results(pages: Collection[str]) -> str:
    """Return a list, for the sidebar, of the pages of results that the home page does not list."""
    home = (RESULTS.parent / f"{HOME}.md").read_text(encoding="utf-8")
    listed = {RESULTS_PAGE, *re.findall(r"^(?:.*<)?\.\./\.\./(results/[^>\n]+)>?$", home, re.M)}
    others = sorted(page for page in pages if page.startswith("results/") and page not in listed)
    names = "\n".join(page.removeprefix("results/") for page in others)
    return f"\n\n```{{toctree}}\n:hidden:\n\n{names}\n```\n"


def home_boards() -> str:
    """Return the first rows of each track, one tab a track, and the figure."""
    parts = ['<div class="tabs">']
    for number, track in enumerate(TRACKS):
        checked = " checked" if number == FIRST_TRACK else ""
        parts.append(
            f'<input type="radio" name="track" id="track-{number}"{checked}>'
            f'<label for="track-{number}">{track.name}</label>'
        )
    boards = [f'<div class="tab">\n\n{_home_board(track)}\n\n</div>' for track in TRACKS]
    tabs = "\n".join(parts) + "\n\n" + "\n\n".join(boards) + "\n\n</div>"
    track = TRACKS[FIRST_TRACK]
    known = {line.estimator for line in lines_of(track)}
    chart = comparison_chart(track, [name for name in COMPARED if name in known])
    return (
        f'{tabs}\n\n<figure class="figure">{chart}<figcaption>Error over that of '
        f"<code>{track.reference}</code> in drawn worlds where propensities and the target policy "
        "are known, by overlap: n / max weight, the rows of the log over the largest weight. "
        "Points are geometric means over worlds.</figcaption></figure>"
    )


def _home_board(track: Track) -> str:
    lines = [line for line in lines_of(track) if line.rank is not None]
    rows = []
    for line in lines[:HOME_ROWS]:
        rank, name, error, *others = leader_cells(line)
        rows.append((rank, name, ratio_bar(line) + error, *others))
    return (
        f"{markdown_table(LEADER_HEAD, rows)}\n\nError: over that of `{track.reference}`. All "
        f"{len(lines)}, and what the columns mean: [leaderboard](../../results/leaderboard.md)."
    )


def board_name(folder: str) -> str:
    """Return the name of the page of a folder of results: ``paper/actions`` is paper-actions."""
    return folder.replace("/", "-")


def board_pages() -> dict[str, str]:
    """Return the text of all pages, by path below bench/docs."""
    paths = folders_with_boards(RESULTS)
    folders = [path.relative_to(RESULTS).as_posix() for path in paths]
    found = {f"boards/{board_name(folder)}.md": _page(folder) for folder in folders}
    rows = [
        (f"[`{board_name(folder)}`]({board_name(folder)}.md)", _title(board_name(folder)))
        for folder in folders
    ]
    names = "\n".join(board_name(folder) for folder in folders)
    found["boards/index.md"] = (
        "# Suites and their boards\n\nOne page a suite whose trials are committed.\n\n"
        f"{markdown_table(('suite', 'what'), rows)}\n\n```{{toctree}}\n:hidden:\n\n{names}\n```\n"
    )
    return found


def _title(suite: str) -> str:
    try:
        return find_suite(suite).title
    except OpeBenchError:
        return ""


def _page(folder: str) -> str:
    path = RESULTS / folder
    name, boards = board_name(folder), boards_of(path)
    settings = f"{len(boards)} setting" + ("s" if len(boards) > 1 else "")
    told_of = (
        f"{settings}. `results/regenerate run {name}` makes the trials, "
        f"`ope-bench show {name} --yaml` prints the suite. All boards: "
        f"[leaderboard](../../../results/{folder}/leaderboard.md)."
    )
    parts = [
        f"# {name}",
        f'<p class="lead">{_title(name)}</p>',
        told_of,
        *_across(boards),
        *_figures(folder),
    ]
    return "\n\n".join(parts) + "\n"


def _across(boards: Sequence[Board]) -> Iterator[str]:
    """Yield the table over all settings, or the only board."""
    known = {one.id for one in built_in("estimator")}

    def link(row: Any) -> str:
        label = f"`{row.label}`"
        if row.estimator not in known:
            return label
        return f"[{label}](../estimators/{page_name(row.estimator)}.md)"

    for summary in summaries(boards):
        rows = [
            (
                link(row),
                f"{row.mean_rank:.1f}",
                "–" if row.factor_iqm is None else f"{row.factor_iqm:.2f}",
                str(row.settings),
            )
            for row in summary.rows
            if row.mean_rank is not None
        ]
        if rows:
            head = ("estimator", "mean rank", "error over the best's", "settings")
            yield f"## Over all settings\n\n{markdown_table(head, rows)}"
            return
    board = [
        (link(row), f"{row.score:.3g}", f"{row.failure.value:.0%}")
        for row in boards[0].rows
        if row.score is not None
    ]
    yield f"## Board\n\n{markdown_table(('estimator', 'score', 'fails'), board)}"


def _figures(folder: str) -> Iterator[str]:
    """Yield the figures by kind, those of single settings folded."""
    found: dict[str, list[str]] = {}
    captions: dict[str, str] = {}
    for one in sorted((FIGURES / folder).glob("*.svg")):
        if one.name.startswith(LEFT_OUT):
            continue
        kind = next((kind for kind in KINDS if one.name.startswith(f"{kind}-")), "")
        about = one.stem.removeprefix(f"{kind}-").replace("-", " ")
        image = f"![{about}](../../../build/figures/{folder}/{one.name})"
        drawn = one.read_text(encoding="utf-8")
        captions[kind] = captions.get(kind, "") + drawn.partition("</desc>")[0]
        width = re.search(r' width="(\d+)', drawn[:400])
        if width and int(width[1]) > WIDE:
            image = f":::{{container}} wide\n{image}\n:::"
        found.setdefault(kind, []).append(image)
    for kind in (*KINDS, ""):
        if kind not in found:
            continue
        images = "::::{container} figures\n" + "\n\n".join(found[kind]) + "\n::::"
        # What one of these figures has.
        texts = CAPTIONS.get(kind.partition("-")[0], {}).values()
        about = " ".join(text for text in texts if text in captions[kind])
        shown = f"{about}\n\n{images}"
        if kind in FOLDED:
            count = f"{len(found[kind])} figure" + "s" * (len(found[kind]) > 1)
            yield f"<details><summary>{KINDS[kind]}: {count}</summary>\n\n{shown}\n\n</details>"
        else:
            yield f"## {KINDS.get(kind, 'Figures')}\n\n{shown}"
