"""Sentences about boards: the notes below one board, and findings over several."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from statistics import median

from ope_bench.boards import built_in_columns as built_in
from ope_bench.boards.board import Board, Row
from ope_bench.boards.over_settings import OverSettings, RegretBoard
from ope_bench.outcomes import Sources, codes_over
from ope_bench.report import access_legend, tables
from ope_bench.report.tables import figure, percent, row_name
from ope_bench.statistics.error_distribution import BOOTSTRAP_SEED, COVERED, resamples_of
from ope_bench.trials.status import Status

BOLD, STAR = "bold:", "*"
"""Marks of rows tied with the best: bold text, or a star at the rank."""

FEW = 30
"""Replicates below which a board states the coverage of its intervals."""

MUCH = 0.2
"""Share of the smallest RMSE from which a board states the standard error of its truth."""

MOST_NAMES = 4

OURS = "ope-bench "
"""Beginning of the origins of built-in plugins."""

# Notes that explain a board, common to all formats.


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
        if board.by == "time":
            return [
                "no trial ran alone, so no times can be compared; `run --timing` fills this board"
            ]
        return ["no row has values for this board"]
    shown = set(built_in.LAYOUTS[board.by].shown if keys is None else keys)
    return [
        *notes_on_base(board),
        *([f"environment: {board.environment_origin}"] if "(" in board.environment_origin else []),
        *_notes_on_errors(board, shown, tied),
        *_notes_on_measures(board, shown),
        *_notes_on_rows(board, shown),
    ]


def notes_on_base(board: Board | OverSettings) -> Iterator[str]:
    """Name the rows that do not rest on the same code, settings or machine as a row should."""
    yield from notes_on_codes((row_name(row), row.codes) for row in board.rows)
    if isinstance(board, OverSettings):
        counts = {row_name(row): getattr(row, "settings", 0) for row in board.rows}
        most = max(counts.values(), default=0)
        lacking = {name: f"{count} of {most}" for name, count in counts.items() if count < most}
        if isinstance(board, RegretBoard) and lacking:
            names = ", ".join(f"{name} ({part})" for name, part in lacking.items())
            yield f"apart, since they lack settings of the others: {names}"
        return
    if lacking_rows := [row_name(row) for row in board.rows if not row.shares_settings]:
        yield f"without rank, since they lack settings of the others: {', '.join(lacking_rows)}"
    if board.left_out:
        names = ", ".join(board.left_out)
        yield f"left out, since the environment has drawn other data since: {names}"
    machines = [*notes_on_machines([board])] if board.by == "time" else []
    if machines:
        yield "times of several machines: ranks are among the rows of one"
        yield from machines


def notes_on_machines(boards: Iterable[Board]) -> Iterator[str]:
    """Name the rows of each machine, if their times are of several."""
    machines = dict.fromkeys(
        (row.machine or "unknown", row_name(row)) for board in boards for row in board.rows
    )
    if len({machine for machine, _ in machines}) > 1:
        yield from (f"on {machine}: {names}" for machine, names in _grouped(machines))


def notes_on_codes(rows: Iterable[tuple[str, int]]) -> Iterator[str]:
    """Name the rows whose trials are of several versions of the code, by name and number."""
    mixed = [f"{name} ({codes})" for name, codes in rows if codes > 1]
    if mixed:
        yield f"of several versions of its code or data: {', '.join(mixed)}"


def codes_of_labels(boards: Sequence[Board]) -> list[tuple[str, int]]:
    """Return of how many versions of its code each estimator's boards are."""
    cells: dict[str, list[tuple[str, Sources]]] = {}
    for board in boards:
        for row in board.rows:
            cells.setdefault(row_name(row), []).append((board.environment, row.sources))
    return [(name, codes_over(one)) for name, one in cells.items()]


def _notes_on_errors(board: Board, shown: set[str], tied: str) -> Iterator[str]:
    """Explain errors, their intervals, ranks and scores."""
    rows, by_rmse = board.rows, board.by == "rmse"
    replicates = [row.finite for row in rows if row.rmse.low is not None]
    if "rmse_interval" in shown and replicates:
        resamples = tables.span(map(resamples_of, replicates), " to ", ",")
        how = f"studentized bootstrap, {resamples} resamples, seed {BOOTSTRAP_SEED}"
        yield f"interval: 95 %, {how}"
        if min(replicates) < FEW:
            yield f"replicates are few: {COVERED}"
    if by_rmse and shown & ({"rank"} if tied == STAR else {"estimator", "rmse"}):
        if board.decided:
            yield f"{tied} does not differ significantly from the best score (paired, Holm, 5 %)"
        if any(row.tied is None and row.rank for row in rows):
            nor = "nor do these, but" if board.decided else "may equal the best:"
            yield (
                f"{built_in.OPEN} {nor} a score larger by half would have been missed too: more "
                "replicates are needed"
            )
    if by_rmse and shown & {"rank", "score"} and any(r.mostly_failed and r.finite for r in rows):
        yield "without rank: failed on more than half of the data sets"
    if "rmse_interval" in shown and any(row.heavy_tailed for row in rows):
        yield f"{built_in.HEAVY.sign} {built_in.HEAVY.explanation}; intervals are unreliable"
    expected = board.truth == "expected"
    if (
        "rmse_empirical" in shown
        and expected
        and any(row.rmse_empirical is not None for row in rows)
    ):
        column = built_in.COLUMNS["rmse_empirical"]
        yield f"{column.title}: {column.explanation}"
    errors = [row.rmse.value for row in rows if row.rmse.value]
    if shown & {"rmse", "coverage"} and expected and board.truth_se and errors:
        share = board.truth_se / min(errors)
        # The truth's own error matters where errors are hardly larger.
        if share >= MUCH:
            yield (
                f"truth: an estimate with standard error {figure(board.truth_se)}, {share:.2g} of "
                "the smallest RMSE; errors are against the estimate"
            )
    if "score" in shown and any(row.imputed for row in rows):
        yield f"score: {built_in.COLUMNS['score'].explanation}"
    survivors = {"rmse", "rmse_interval", "bias", "median_absolute_error"}
    if by_rmse and shown & survivors and any(0 < row.finite < row.replicates for row in rows):
        yield "RMSE, interval, bias, median: over the trials with an estimate"


def _notes_on_measures(board: Board, shown: set[str]) -> Iterator[str]:
    """Explain what boards in other orders than by RMSE measure."""
    if board.by == "positivity" and shown & {"failure_rate", "status"}:
        for words, key in (
            ("target mass without support, true logging policy", "unsupported_mass"),
            ("target actions never logged", "observed_unsupported_mass"),
            ("different actions logged (d0)", "n_logged_actions"),
            ("different actions in the target sample (d1)", "n_target_actions"),
        ):
            column = built_in.COLUMNS[key]
            values = (column.value(row) for row in board.rows)
            value = next((one for one in values if one is not None), None)
            if value is not None:
                yield f"{words}: {tables.value_text(value, column.format)}"
    warned = any(row.warnings.warned for row in board.rows)
    if warned and shown & {"warning_precision", "warning_recall"}:
        yield (
            "prec, rec: of the estimator's own warnings; right if the withheld estimate "
            "was worse than the logging average"
        )
    measures = dict.fromkeys(row.ratio_measure for row in board.rows if row.ratio_measure)
    if measures and "ratio_error" in shown:
        yield f"ratio error: {', '.join(measures)}, median over replicates"
    if board.by == "balance" and shown & {"smd_after", "mmd_after"}:
        yield (
            "SMD: largest standardized mean difference between weighted logs and target sample "
            "over the columns of context and embedding; MMD: their kernel distance; "
            "both median over replicates, and of the logs before weighting"
        )
    if board.by == "coverage" and shown & {"missed_below", "missed_above"}:
        yield (
            "cover: share of 95 % intervals that hold the expected truth, with its Wilson "
            "interval; below, above: share that lies wholly below or above it"
        )
        score = built_in.COLUMNS["interval_score"].explanation
        parts = (
            ("interval_score", f"score: {score}"),
            ("coverage_ess", "ESS/n: coverage in such trials"),
        )
        told = [text for name, text in parts if any(one.startswith(name) for one in shown)]
        if told:
            yield "; ".join(told)
        yield "rows are ordered by the distance of the coverage from 95 %"


def _notes_on_rows(board: Board, shown: set[str]) -> Iterator[str]:
    """Name the rows with doubtful weights, withheld standard errors and foreign origins."""
    if shown & {"coverage", "interval_width", "max_weight_share"}:
        # By name, as a narrow table has no column that could be marked.
        doubts = (
            (text, row_name(row)) for row in board.rows for text in built_in.weights_in_doubt(row)
        )
        for text, names in _grouped(doubts):
            yield f"{built_in.DOUBTFUL.sign} {names}: {text}"
    if shown & {"coverage", "interval_width", "withheld"}:
        withheld = (
            (
                "; ".join(row.withheld.reasons),
                f"{row_name(row)} ({row.withheld.count} of {row.finite})",
            )
            for row in board.rows
            if row.withheld.count
        )
        for reason, names in _grouped(withheld):
            yield f"standard error withheld: {names}: {reason}"
    if "access" in shown:
        yield access_legend(row.access for row in board.rows)
    if "estimator" in shown:
        origins = ((row.origin, row_name(row)) for row in board.rows if row.origin)
        others = ((origin, name) for origin, name in origins if not origin.startswith(OURS))
        for origin, names in _grouped(others):
            yield f"from {origin}: {names}"


def _grouped(pairs: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield each first text with the first few of its second texts."""
    groups: dict[str, list[str]] = {}
    for text, name in pairs:
        groups.setdefault(text, []).append(name)
    for text, names in groups.items():
        more = len(names) - MOST_NAMES
        yield text, ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


# Sentences on boards: leading estimators, failures, silent ones too, resolution of comparisons.

SILENT = 0.8
"""Coverage of 95 % intervals below which, beyond chance, an estimator fails without saying so."""


def findings(boards: Iterable[Board]) -> list[str]:
    """Describe boards by RMSE in three or four sentences.

    Only what the boards' own tests show is said: an estimator leads together with all estimators
    whose score does not differ significantly from the best.

    Parameters
    ----------
    boards : boards of one kind of truth, one for each setting; those not by RMSE are ignored.
    """
    shown = [board for board in boards if board.by == "rmse" and board.rows]
    if not shown:
        return []
    mixed = (f"{note[0].upper()}{note[1:]}." for note in notes_on_codes(codes_of_labels(shown)))
    sentences = [_leaders(shown), _failures(shown), *_silent_failures(shown), _resolution(shown)]
    return [*sentences, *mixed]


def _leaders(boards: Sequence[Board]) -> str:
    first = Counter(row.label for board in boards for row in board.rows if row.rank == 1)
    if not first:
        return "No estimator has an estimate on half of the data sets or more."
    if len(boards) == 1:
        return _leader_of_one(boards[0])
    if all(len(board.rows) == 1 for board in boards) and len(first) == 1:
        return f"Only {next(iter(first))} has an RMSE."
    if len(first) == 1:
        (name,) = first
        leading = (row.label for board in boards for row in board.rows if _leads(row))
        tied = [label for label in dict.fromkeys(leading) if label != name]
        every = "both" if len(boards) == 2 else f"all {len(boards)}"
        sentence = f"{name} has the smallest RMSE in {every} settings"
        return f"{sentence}; {_names(tied)} tie with it in some." if tied else f"{sentence}."
    places = [f"{name} in {count}" for name, count in first.most_common(MOST_NAMES)]
    others = len(first) - MOST_NAMES
    if others > 0:
        places.append(f"{others} other{'s' * (others != 1)} in the rest")
    sentence = f"Smallest RMSE: {_join(places)} of {len(boards)} settings"
    always = [
        name
        for name in first
        if all(any(row.label == name and _leads(row) for row in board.rows) for board in boards)
    ]
    if always:
        return f"{sentence}; among the best in every one: {_names(always)}."
    if any(row.rank and row.tied is None for board in boards for row in board.rows[1:]):
        # A comparison that is open excludes nobody.
        return f"{sentence}."
    return f"{sentence}; no estimator is among the best in every one."


def _leader_of_one(board: Board) -> str:
    best = [row for row in board.rows if row.rank == 1]
    tied = [row.label for row in board.rows if row.tied and row.rank != 1]
    unclear = [row.label for row in board.rows if row.rank and row.rank > 1 and row.tied is None]
    who = _names([row.label for row in best]) + (" has" if len(best) == 1 else " have")
    sentence = f"{who} the smallest RMSE, {figure(best[0].score)}"
    if tied:
        verb = "does" if len(tied) == 1 else "do"
        sentence += f"; {_names(tied)} {verb} not differ significantly"
    if unclear:
        sentence += f"; the comparison with {_names(unclear)} is open"
    compared = sum(row.rank is not None for row in board.rows) - len(best)
    if not compared and len(best) == 1:
        return f"Only {best[0].label} has an RMSE: {figure(best[0].score)}."
    if compared and not tied and not unclear:
        sentence += "; all others have a significantly larger one"
    return f"{sentence}."


def _leads(row: Row) -> bool:
    return row.rank == 1 or bool(row.tied)


def _failures(boards: Sequence[Board]) -> str:
    status: dict[str, Counter[str]] = {}
    for board in boards:
        for row in board.rows:
            status.setdefault(row.label, Counter()).update(row.status)
    parts = []
    failed = {}
    for name, counts in status.items():
        tried = sum(counts.values()) - counts[Status.UNAVAILABLE]
        if tried > counts[Status.OK]:
            failed[name] = 1 - counts[Status.OK] / tried
    if failed:
        named = []
        for name, share in sorted(failed.items(), key=lambda one: -one[1]):
            words = [Status(word) for word, _ in status[name].most_common()]
            reasons = [word.value for word in words if word.tried and word is not Status.OK]
            named.append(f"{name} on {percent(share)} of its data sets ({', '.join(reasons)})")
        parts.append(f"Failed: {_names(named)}")
    missing = [name for name, counts in status.items() if counts[Status.UNAVAILABLE]]
    if missing:
        somewhere = any(status[name].keys() - {Status.UNAVAILABLE} for name in missing)
        where = "in every setting" if somewhere else "here"
        parts.append(f"not available {where}: {_names(missing)}")
    if not failed:
        parts.insert(0, "No trial failed")
    return f"{'; '.join(parts)}."


def _silent_failures(boards: Sequence[Board]) -> Iterator[str]:
    """Yield a sentence on estimators that answer with intervals which rarely hold the value.

    It is of the setting with the lowest coverage; the upper end of its interval is below `SILENT`.
    """
    found = {
        board.label: {
            row.label: row.coverage.share.value
            for row in board.rows
            if row.coverage.share.value is not None
            and not row.mostly_failed
            and (row.coverage.share.high or 1.0) < SILENT
        }
        for board in boards
    }
    if not any(found.values()):
        return
    setting = min(found, key=lambda name: min(found[name].values(), default=1.0))
    shares = sorted(found[setting].items(), key=lambda one: one[1])[:MOST_NAMES]
    held = _join([percent(share) for _, share in shares])
    many = len(shares) > 1
    yield (
        f"{_join([name for name, _ in shares])} answered, but with {setting} the 95 % "
        f"interval{'s' * many} held the value in {held} of the data sets."
    )


def _resolution(boards: Sequence[Board]) -> str:
    rows = [row for board in boards for row in board.rows if row.finite]
    if not rows:
        return "Nothing could be compared."
    sentence = f"{tables.replicates_of(rows)} a setting"
    seen = [row.detectable for row in rows if row.detectable is not None]
    compared = sum(row.rank is not None and row.rank > 1 for row in rows)
    if seen:
        sentence += (
            f": an error {1 + median(seen):.1f} times the best's is detected (power 80 %); "
            "smaller gaps may be chance"
        )
    elif compared:
        sentence += " are too few to tell any two estimators apart"
    wild = sum(row.heavy_tailed for row in rows)
    if wild:
        sentence += (
            f". In {wild} of {len(rows)} rows a few data sets dominate: compare medians there"
        )
    return f"{sentence}."


def _names(names: Sequence[str]) -> str:
    if len(names) <= MOST_NAMES:
        return _join(names)
    return _join([*names[: MOST_NAMES - 1], f"{len(names) - MOST_NAMES + 1} more"])


def _join(parts: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))
