from __future__ import annotations

from dataclasses import replace

import numpy as np

from ope_bench.boards.leaderboard import boards
from ope_bench.plugins.spec import PluginSpec
from ope_bench.report.boards import render_result
from ope_bench.report.notes import findings
from ope_bench.trials.record import Trial, TrialRecord
from ope_bench.trials.status import Status

N = 40


def records(n_actions: int, **errors: object) -> list[TrialRecord]:
    """Records of estimators with these errors; None is a positivity violation."""
    world = PluginSpec("environment", "toy", "toy", {"n_actions": n_actions})
    return [
        TrialRecord(
            Trial(world, PluginSpec("estimator", name, name), replicate),
            "code",
            error if isinstance(error, Status) else Status.OK,
            estimate=None if isinstance(error, Status) else 1.0 + error,
            truth_expected=1.0,
            logging_average=3.0,
        )
        for name, column in errors.items()
        for replicate, error in enumerate(column)  # type: ignore[arg-type]
    ]


def normal(scale: float, stream: int = 0, n: int = N) -> list[float]:
    return [float(scale * z) for z in np.random.default_rng(stream).standard_normal(n)]


def test_a_clear_leader_of_one_setting() -> None:
    found = boards(records(5, good=normal(0.1), poor=normal(1.0, 1)))
    leader, failed, resolved = findings(found)
    score = next(row.score for row in found[0].rows if row.label == "good")
    assert leader == (
        f"good has the smallest RMSE, {score:.3g}; all others have a significantly larger one."
    )
    assert failed == "No trial failed."
    (detectable,) = [row.detectable for row in found[0].rows if row.detectable is not None]
    assert f"an error {1 + detectable:.1f} times the best's is detected (power 80 %)" in resolved


def test_a_tie_is_no_lead() -> None:
    found = boards(records(5, one=normal(0.1, 0, 200), two=normal(0.1, 1, 200)))
    (other,) = [row.label for row in found[0].rows if row.rank == 2]
    assert findings(found)[0].endswith(f"; {other} does not differ significantly.")


def test_two_replicates_leave_the_comparison_open() -> None:
    found = boards(records(5, one=[0.1, 0.2], two=[0.3, 0.5]))
    leader, _, resolved = findings(found)
    assert leader.endswith("; the comparison with two is open.")
    assert resolved == "2 replicates a setting are too few to tell any two estimators apart."


def test_nobody_is_excluded_where_comparisons_are_open() -> None:
    one, two = {"a": [0.1, 0.2], "b": [0.3, 0.5]}, {"a": [0.3, 0.5], "b": [0.1, 0.2]}
    first, *_ = findings(boards([*records(5, **one), *records(6, **two)]))
    assert first == "Smallest RMSE: a in 1 and b in 1 of 2 settings."


def test_leaders_of_several_settings() -> None:
    clear = {"good": normal(0.1), "poor": normal(1.0, 1)}
    turned = {"good": normal(1.0, 1), "poor": normal(0.1)}
    one_way = findings(boards([*records(5, **clear), *records(6, **clear)]))
    assert one_way[0] == "good has the smallest RMSE in both settings."
    both = findings(boards([*records(5, **clear), *records(6, **clear), *records(7, **turned)]))
    assert both[0] == (
        "Smallest RMSE: good in 2 and poor in 1 of 3 settings; no estimator is among the best in "
        "every one."
    )


def test_failures_say_who_how_often_and_why() -> None:
    found = boards(
        records(
            5,
            good=normal(0.1),
            shy=[*normal(0.1)[:30], *[Status.POSITIVITY] * 9, Status.TIMEOUT],
            absent=[Status.UNAVAILABLE] * N,
        )
    )
    assert findings(found)[1] == (
        "Failed: shy on 25% of its data sets (positivity, timeout); not available here: absent."
    )


def test_heavy_tails_are_counted() -> None:
    wild = [0.01] * (N - 1) + [5.0]
    found = boards(records(5, good=normal(0.1), wild=wild))
    assert findings(found)[2].endswith(
        ". In 1 of 2 rows a few data sets dominate: compare medians there."
    )


def test_boards_by_another_measure_have_no_findings() -> None:
    assert findings(boards(records(5, good=normal(0.1)), by="positivity")) == []


def test_names_are_escaped_and_lines_fit() -> None:
    found = boards(records(5, **{"a\x1b[2Jb": normal(0.1), "long" * 30: normal(1.0, 1)}))
    text = render_result(found, width=80)
    assert "\x1b" not in text
    assert max(map(len, text.splitlines()[-4:])) <= 80


def test_shared_notes_stand_once_at_the_end() -> None:
    clear = {"good": normal(0.1), "poor": normal(1.0, 1)}
    found = boards([*records(5, **clear), *records(6, **clear)])
    text = render_result(found, every_board=True)
    assert text.count("by rmse") == 2
    assert text.count("does not differ significantly from the best") == 1
    assert text.index("access:") > text.rindex("by rmse")
    assert render_result(found).count("by rmse") == 0


def test_leaders_beyond_four_are_counted() -> None:
    """Each of five estimators is exact in one of five settings."""
    names = [f"e{i}" for i in range(5)]
    found = [
        board
        for n, best in enumerate(names)
        for board in boards(
            records(
                n + 2, **{x: normal(0.01 if x == best else 1.0, i) for i, x in enumerate(names)}
            )
        )
    ]
    leaders = "e0 in 1, e1 in 1, e2 in 1, e3 in 1 and 1 other in the rest of 5 settings"
    assert findings(found)[0].startswith(f"Smallest RMSE: {leaders}")


def test_who_answers_with_intervals_that_rarely_hold_is_named_with_the_setting() -> None:
    def with_errors(found: list[TrialRecord], **sizes: float) -> list[TrialRecord]:
        return [replace(one, standard_error=sizes.get(one.trial.estimator.id)) for one in found]

    mild = with_errors(records(5, sure=normal(0.3), fair=normal(0.3, 1)), sure=0.1, fair=0.3)
    hard = with_errors(records(500, sure=normal(0.3), fair=normal(0.3, 1)), sure=0.01, fair=0.3)
    lines = findings(boards([*mild, *hard]))
    assert len(lines) == 4
    held = np.mean(np.abs(normal(0.3)) <= 1.959964 * 0.01)
    assert lines[2] == (
        f"sure answered, but with toy n_actions=500 the 95 % interval held the value in "
        f"{100 * held:.0f}% of the data sets."
    )
    assert len(findings(boards(mild[N:]))) == 3
