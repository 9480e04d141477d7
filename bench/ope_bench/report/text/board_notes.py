"""Notes that explain a board, common to all formats."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial

from ope_bench.boards.board import Board
from ope_bench.boards.columns.built_in import COLUMNS
from ope_bench.boards.columns.emphasis import DOUBTFUL, HEAVY, OPEN, weights_in_doubt
from ope_bench.boards.columns.layouts import LAYOUTS
from ope_bench.report.text.column_table import row_name
from ope_bench.report.text.formats import ACCESS_LETTERS, access_letters, figure, value_text
from ope_bench.statistics.bootstrap import BOOTSTRAP_SEED, COVERED, resamples_of

__all__ = ["BOLD", "STAR", "board_notes"]

BOLD, STAR = "bold:", "*"
"""Marks of rows tied with the best: bold text, or a star at the rank."""

FEW = 30
"""Replicates below which a board states the coverage of its intervals."""

MUCH = 0.2
"""Share of the smallest RMSE from which a board states the standard error of its truth."""

MOST_NAMES = 4

OURS = "ope-bench "
"""Beginning of the origins of built-in plugins."""

Notes = Callable[[Board], Iterator[str]]


def board_notes(
    board: Board, keys: Collection[str] | None = None, *, tied: str = BOLD
) -> list[str]:
    """Return the notes to a board, on what occurs in it only.

    Parameters
    ----------
    board : the board.
    keys : keys of the shown columns; by default those of the board's layout.
    tied : mark of rows tied with the best, `BOLD` or `STAR`.
    """
    if not board.rows:
        return [_why_empty(board)]
    shown = set(LAYOUTS[board.by].shown if keys is None else keys)
    lines = [f"environment: {board.environment_origin}"] if "(" in board.environment_origin else []
    for explained, notes in _notes(tied):
        if shown & explained:
            lines += notes(board)
    return lines


def _why_empty(board: Board) -> str:
    if board.by == "time":
        return "no trial ran alone, so no times can be compared; `run --timing` fills this board"
    return "no row has values for this board"


def _interval(board: Board) -> Iterator[str]:
    replicates = [row.finite for row in board.rows if row.rmse.low is not None]
    if not replicates:
        return
    counts = sorted({resamples_of(n) for n in replicates})
    resamples = " to ".join(f"{count:,}" for count in dict.fromkeys((counts[0], counts[-1])))
    yield f"interval: 95 %, studentized bootstrap, {resamples} resamples, seed {BOOTSTRAP_SEED}"
    if min(replicates) < FEW:
        yield f"replicates are few: {COVERED}"


def _tied(mark: str, board: Board) -> Iterator[str]:
    if board.by != "rmse":
        return
    if any(row.tied for row in board.rows):
        yield f"{mark} does not differ significantly from the best score (paired, Holm, 5 %)"
    if any(row.tied is None and row.rank for row in board.rows):
        yield (
            f"{OPEN} nor do these, but a score larger by half would have been missed too: "
            "more replicates are needed"
        )


def _not_ranked(board: Board) -> Iterator[str]:
    if board.by == "rmse" and any(row.rank is None and row.finite for row in board.rows):
        yield "without rank: failed on more than half of the data sets"


def _heavy_tailed(board: Board) -> Iterator[str]:
    if any(row.heavy_tailed for row in board.rows):
        yield f"{HEAVY.sign} {HEAVY.explanation}; intervals are unreliable"


def _empirical(board: Board) -> Iterator[str]:
    if board.truth == "expected" and any(row.rmse_empirical is not None for row in board.rows):
        column = COLUMNS["rmse_empirical"]
        yield f"{column.title}: {column.explanation}"


def _truth_error(board: Board) -> Iterator[str]:
    """State the truth's own error where errors are hardly larger."""
    errors = [row.rmse.value for row in board.rows if row.rmse.value]
    if board.truth != "expected" or not board.truth_se or not errors:
        return
    share = board.truth_se / min(errors)
    if share >= MUCH:
        yield (
            f"truth: an estimate with standard error {figure(board.truth_se)}, {share:.2g} of the "
            "smallest RMSE; errors are against the estimate"
        )


def _imputed(board: Board) -> Iterator[str]:
    if any(row.imputed for row in board.rows):
        yield f"score: {COLUMNS['score'].explanation}"


def _survivors(board: Board) -> Iterator[str]:
    if board.by == "rmse" and any(0 < row.finite < row.replicates for row in board.rows):
        yield "RMSE, interval, bias, median: over the trials with an estimate"


def _support(board: Board) -> Iterator[str]:
    if board.by != "positivity":
        return
    for words, key in (
        ("target mass without support, true logging policy", "unsupported_mass"),
        ("target actions never logged", "observed_unsupported_mass"),
        ("different actions logged (d0)", "n_logged_actions"),
        ("different actions in the target sample (d1)", "n_target_actions"),
    ):
        column = COLUMNS[key]
        values = (column.value(row) for row in board.rows)
        value = next((one for one in values if one is not None), None)
        if value is not None:
            yield f"{words}: {value_text(value, column.format)}"


def _warnings(board: Board) -> Iterator[str]:
    if any(row.warnings.warned for row in board.rows):
        yield (
            "prec, rec: of the estimator's own warnings; right if the withheld estimate "
            "was worse than the logging average"
        )


def _ratio_measures(board: Board) -> Iterator[str]:
    measures = dict.fromkeys(row.ratio_measure for row in board.rows if row.ratio_measure)
    if measures:
        yield f"ratio error: {', '.join(measures)}, median over replicates"


def _balance(board: Board) -> Iterator[str]:
    if board.by == "balance":
        yield (
            "SMD: largest standardized mean difference between weighted logs and target sample "
            "over the columns of context and embedding; MMD: their kernel distance; "
            "both median over replicates, and of the logs before weighting"
        )


def _doubtful_weights(board: Board) -> Iterator[str]:
    """Name the rows, as a narrow table has no column that could be marked."""
    names: dict[str, list[str]] = {}
    for row in board.rows:
        for text in weights_in_doubt(row):
            names.setdefault(text, []).append(row_name(row))
    for text, who in names.items():
        yield f"{DOUBTFUL.sign} {_list(who)}: {text}"


def _withheld(board: Board) -> Iterator[str]:
    rows = [row for row in board.rows if row.withheld.count]
    by_reason: dict[str, list[str]] = {}
    for row in rows:
        name = f"{row_name(row)} ({row.withheld.count} of {row.finite})"
        by_reason.setdefault("; ".join(row.withheld.reasons), []).append(name)
    for reason, names in by_reason.items():
        yield f"standard error withheld: {_list(names)}: {reason}"


def _list(names: Sequence[str]) -> str:
    who = ", ".join(names[:MOST_NAMES])
    return f"{who} and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else who


def _coverage(board: Board) -> Iterator[str]:
    if board.by == "coverage":
        yield (
            "cover: share of 95 % intervals that hold the expected truth, with its Wilson "
            "interval; below, above: share that lies wholly below or above it"
        )
        yield f"score: {COLUMNS['interval_score'].explanation}; ESS/n: coverage in such trials"
        yield "rows are ordered by the distance of the coverage from 95 %"


def _access(board: Board) -> Iterator[str]:
    letters = {letter for row in board.rows for letter in access_letters(row.access)}
    used = [
        f"{letter} {word.replace('_', ' ')}"
        for word, letter in ACCESS_LETTERS.items()
        if letter in letters
    ]
    yield f"access: {', '.join(used).replace('- samples', '- samples only')}"


def _origins(board: Board) -> Iterator[str]:
    """Name what other distributions, or files, have computed."""
    by_origin: dict[str, list[str]] = {}
    for row in board.rows:
        if row.origin and not row.origin.startswith(OURS):
            by_origin.setdefault(row.origin, []).append(row_name(row))
    for origin, names in by_origin.items():
        yield f"from {origin}: {_list(names)}"


def _notes(tied: str) -> tuple[tuple[set[str], Notes], ...]:
    """Return the notes in their order, each with the columns that it explains."""
    return (
        ({"rmse_interval"}, _interval),
        ({"rank"} if tied == STAR else {"estimator", "rmse"}, partial(_tied, tied)),
        ({"rank", "score"}, _not_ranked),
        ({"rmse_interval"}, _heavy_tailed),
        ({"rmse_empirical"}, _empirical),
        ({"rmse", "coverage"}, _truth_error),
        ({"score"}, _imputed),
        ({"rmse", "rmse_interval", "bias", "median_absolute_error"}, _survivors),
        ({"failure_rate", "status"}, _support),
        ({"warning_precision", "warning_recall"}, _warnings),
        ({"ratio_error"}, _ratio_measures),
        ({"smd_after", "mmd_after"}, _balance),
        ({"missed_below", "missed_above"}, _coverage),
        ({"coverage", "interval_width", "max_weight_share"}, _doubtful_weights),
        ({"coverage", "interval_width", "withheld"}, _withheld),
        ({"access"}, _access),
        ({"estimator"}, _origins),
    )
