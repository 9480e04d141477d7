"""What the columns of each kind of board are, in words that every format shares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ope_bench.across import Across
from ope_bench.leaderboard import Board, Row
from ope_bench.statistics.bootstrap import BOOTSTRAP_SEED, RESAMPLES

__all__ = [
    "ACCESS_LETTERS",
    "Column",
    "access_letters",
    "board_title",
    "columns",
    "figure",
    "notes",
    "summary_cells",
    "summary_notes",
    "summary_title",
]

DAGGER = "\N{DAGGER}"
"""Stands where an interval would be for a heavy-tailed row."""

DOUBLE_DAGGER = "\N{DOUBLE DAGGER}"
"""Stands beside what a few heavy weights make doubtful."""

CONCENTRATED = 0.5
"""Share of the weight in one logged row from which on standard errors mean little."""

ACCESS_LETTERS = {
    "samples": "-",
    "propensity": "p",
    "logging_policy": "L",
    "target_policy": "T",
    "embedding_distribution": "E",
}


@dataclass(frozen=True)
class Column:
    """One column.

    Parameters
    ----------
    header : its name.
    cell : a row's text.
    number : aligned right.
    """

    header: str
    cell: Callable[[Row], str]
    number: bool = True


def figure(value: float | None, digits: int = 3) -> str:
    """A number in three digits, a dash for none.

    >>> figure(0.01234), figure(None), figure(12345.0), figure(0.0)
    ('0.0123', '-', '1.23e4', '0')
    """
    if value is None:
        return "-"
    if value == 0:
        return "0"
    if 1e-3 <= abs(value) < 10**4:
        # Trailing zeros are digits that are known.
        text = f"{value:#.{digits}g}"
        return text.removesuffix(".")
    mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
    return f"{mantissa}e{int(exponent)}"


def percent(value: float | None) -> str:
    """A share in percent, a dash for none; only none at all is 0 %, only all are 100 %.

    >>> percent(0.001), percent(0.5), percent(1.0), percent(None)
    ('<1%', '50%', '100%', '-')
    """
    if value is None:
        return "-"
    if 0 < value < 0.005:
        return "<1%"
    if 0.995 <= value < 1:
        return ">99%"
    return f"{100 * value:.0f}%"


def seconds(value: float | None) -> str:
    """A duration with its unit.

    >>> seconds(0.0000123), seconds(0.00123), seconds(2.5), seconds(None)
    ('12.3us', '1.23ms', '2.50s', '-')
    """
    if value is None:
        return "-"
    if value < 1e-3:
        return f"{figure(value * 1e6)}us"
    return f"{figure(value * 1000)}ms" if value < 1 else f"{figure(value)}s"


def access_letters(row: Row) -> str:
    """What the estimator was given beyond samples, a letter each."""
    words = list(row.access)
    if "logging_policy" in words:
        words.remove("propensity") if "propensity" in words else None
    return "".join(ACCESS_LETTERS.get(word, "?") for word in words) or "-"


def _name(row: Row) -> str:
    return row.label if row.device == "cpu" else f"{row.label} ({row.device})"


def _rank(row: Row) -> str:
    return "-" if row.rank is None else str(row.rank)


def _interval(row: Row) -> str:
    if row.heavy_tailed:
        return DAGGER
    if row.rmse_low is None:
        return "-"
    return f"{figure(row.rmse_low)}-{figure(row.rmse_high)}"


def _failures(row: Row) -> str:
    words = [f"{word} {count}" for word, count in row.status.items() if word != "ok"]
    return ", ".join(words) or "-"


def _failure_interval(row: Row) -> str:
    if row.failure_low is None:
        return "-"
    return f"{percent(row.failure_low)}-{percent(row.failure_high)}"


def concentrated(row: Row) -> bool:
    """Whether one logged row carries most of the weight, in the mean over replicates."""
    return row.max_weight_share is not None and row.max_weight_share > CONCENTRATED


def _marked(text: str, row: Row) -> str:
    return f"{text}{DOUBLE_DAGGER}" if concentrated(row) and text != "-" else text


NAME = (Column("#", _rank), Column("estimator", _name, number=False))

RMSE = (
    Column("RMSE", lambda row: figure(row.rmse)),
    Column("95 % interval", _interval),
    Column("score", lambda row: figure(row.score)),
    Column("bias", lambda row: figure(row.bias)),
    Column("median", lambda row: figure(row.median_absolute_error)),
    Column("fail", lambda row: percent(row.failure_rate)),
)
COVERAGE = (
    Column("cover", lambda row: _marked(percent(row.coverage), row)),
    Column("width", lambda row: _marked(figure(row.interval_width), row)),
)
RELATIVE = Column("RMSE/V", lambda row: figure(row.relative_rmse))
ACCESS = Column("access", access_letters, number=False)

POSITIVITY = (
    Column("fail", lambda row: percent(row.failure_rate)),
    Column("95 % interval", _failure_interval),
    Column("statuses", _failures, number=False),
    Column("ESS/n", lambda row: figure(row.ess_fraction)),
    Column("max w", lambda row: _marked(figure(row.max_weight_share), row)),
    Column("prec", lambda row: percent(row.warning_precision)),
    Column("rec", lambda row: percent(row.warning_recall)),
)

TIME = (
    Column("fit", lambda row: seconds(row.fit_seconds)),
    Column("estimate", lambda row: seconds(row.estimate_seconds)),
    Column("both", lambda row: seconds(row.seconds)),
    Column(
        "memory",
        lambda row: "-" if row.peak_rss_bytes is None else f"{row.peak_rss_bytes / 2**20:.0f}M",
    ),
    Column("RMSE", lambda row: figure(row.rmse)),
)

RATIO = (
    Column("ratio error", lambda row: figure(row.ratio_error)),
    Column("logged", lambda row: figure(row.diagnostics.get("log_ratio_rmse"))),
    Column("KL", lambda row: figure(row.diagnostics.get("kl_estimate"))),
    Column("true KL", lambda row: figure(row.diagnostics.get("kl_true"))),
    Column("mean w", lambda row: figure(row.diagnostics.get("mean_weight"))),
    Column("ESS/n", lambda row: figure(row.ess_fraction)),
    Column("RMSE", lambda row: figure(row.rmse)),
)


def columns(board: Board) -> list[Column]:
    """The columns of a board; those that would be empty in every row are left out."""
    if board.by == "positivity":
        return [*NAME, *POSITIVITY, ACCESS]
    if board.by == "time":
        return [*NAME, *TIME]
    if board.by == "ratio":
        return [*NAME, *RATIO]
    chosen = [*NAME, *RMSE, RELATIVE]
    if any(row.coverage is not None for row in board.rows):
        chosen += COVERAGE
    return [*chosen, ACCESS]


def summary_title(summary: Across) -> str:
    """What a summary is over."""
    return f"over {summary.settings} settings | {summary.truth} truth"


def summary_notes(summary: Across) -> list[str]:
    """What the columns of a summary mean, and how far apart two mean ranks must be."""
    found = [
        "x best: score over the setting's best, interquartile mean",
        "within: share of settings in which the score is within that factor of the best",
    ]
    if summary.critical_difference is not None:
        found.append(
            f"mean ranks ({summary.complete} settings) differ if they are "
            f"{figure(summary.critical_difference)} apart (Nemenyi, 5 %, settings independent)"
        )
    return found


def summary_cells(summary: Across) -> tuple[list[str], list[list[str]]]:
    """Header and rows of a summary."""
    header = ["estimator", "mean rank", "x best"]
    header += [f"within x{factor:g}" for factor in summary.factors[1:]]
    return header, [
        [
            row.label,
            figure(row.mean_rank),
            figure(row.factor_iqm),
            *(percent(share) for share in row.within[1:]),
        ]
        for row in summary.rows
    ]


def board_title(board: Board) -> str:
    """Setting, question, truth, and how many replicates."""
    counts = sorted({row.replicates for row in board.rows})
    replicates = "-".join(map(str, dict.fromkeys((counts[0], counts[-1])))) if counts else "0"
    truth = f"{board.truth} truth"
    if board.truth_rms is not None:
        truth += f" (rms {figure(board.truth_rms)})"
    plural = "" if replicates == "1" else "s"
    return f"{board.label} | by {board.by} | {truth} | {replicates} replicate{plural}"


def notes(board: Board, tied: str = "bold:") -> list[str]:
    """What a reader must know to read this board; nothing that does not occur in it.

    Parameters
    ----------
    board : whose notes.
    tied : how rows that cannot be told from the best are marked.
    """
    rows, found = board.rows, []
    if board.by == "time" and not rows:
        return ["no trial ran alone, so no times can be compared; `run --timing` fills this board"]
    if not rows:
        return ["no row has such a figure"]
    if "(" in board.environment_origin:
        found.append(f"environment: {board.environment_origin}")
    if board.by == "rmse":
        replicates = [row.finite for row in rows if row.rmse_low is not None]
        if replicates:
            found.append(
                f"interval: 95 %, BCa bootstrap, {RESAMPLES:,} resamples, seed {BOOTSTRAP_SEED}"
            )
            if min(replicates) < FEW:
                found.append(
                    "replicates are few, intervals too narrow: of normal errors they cover 83 % "
                    "at 10, 88 % at 20"
                )
        if any(row.tied for row in rows):
            found.append(f"{tied} cannot be told from the best score (paired, Holm, 5 %)")
        if any(row.heavy_tailed for row in rows):
            found.append(
                f"{DAGGER} one replicate carries over a quarter of the squared error: no "
                "interval would hold, read the median"
            )
        if any(row.imputed for row in rows):
            found.append(
                "score: RMSE with failures at the logging average's error; ranks follow it"
            )
        if any(0 < row.finite < row.replicates for row in rows):
            found.append("RMSE, interval, bias, median: over the trials that gave an estimate")
    if board.by == "positivity":
        found += _support(rows)
        if any(row.warned for row in rows):
            found.append(
                "prec, rec: of the estimator's own warnings; right where the estimate it "
                "withheld was worse than the logging average"
            )
    if board.by == "ratio":
        measures = dict.fromkeys(row.ratio_measure for row in rows if row.ratio_measure)
        found.append(f"ratio error: {', '.join(measures)}, median over replicates")
    if board.by in ("rmse", "positivity"):
        found += _concentration(rows)
        used = [
            f"{letter} {word.replace('_', ' ')}"
            for word, letter in ACCESS_LETTERS.items()
            if any(letter in access_letters(row) for row in rows)
        ]
        found.append(f"access: {', '.join(used).replace('- samples', '- samples only')}")
    return found


FEW = 30
"""Replicates below which a bootstrap interval of an RMSE covers visibly less than it says."""

MOST_NAMES = 4


def _concentration(rows: tuple[Row, ...]) -> list[str]:
    """Named, as a narrow table has no column that could be marked."""
    names = [_name(row) for row in rows if concentrated(row)]
    if not names:
        return []
    who = ", ".join(names[:MOST_NAMES])
    if len(names) > MOST_NAMES:
        who += f" and {len(names) - MOST_NAMES} more"
    why = (
        "one logged row carries over half of the weight, so the standard errors are far too small"
    )
    return [f"{DOUBLE_DAGGER} {who}: {why}"]


def _support(rows: tuple[Row, ...]) -> list[str]:
    facts = (
        ("target mass without support, true logging policy", "unsupported_mass", percent),
        ("target actions never logged", "observed_unsupported_mass", percent),
        ("different actions logged (d0)", "n_logged_actions", figure),
        ("different actions in the target sample (d1)", "n_target_actions", figure),
    )
    lines = []
    for words, name, form in facts:
        value = next((v for row in rows if (v := getattr(row, name)) is not None), None)
        if value is not None:
            lines.append(f"{words}: {form(value)}")
    return lines
