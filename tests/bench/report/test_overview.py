from __future__ import annotations

from ope_bench.boards.leaderboard import boards
from ope_bench.plugins.spec import PluginSpec
from ope_bench.report.boards import render_overview
from ope_bench.trials.record import Trial, TrialRecord
from ope_bench.trials.status import Device, Status


def _records(
    n_actions: int, errors: dict[str, list[float | None]], device: Device = Device.CPU
) -> list[TrialRecord]:
    environment = PluginSpec("environment", "toy", "toy", {"n_actions": n_actions})
    return [
        TrialRecord(
            Trial(environment, PluginSpec("estimator", name, name), replicate, device=device),
            "code",
            Status.OK if error is not None else Status.POSITIVITY,
            estimate=None if error is None else 1.0 + error,
            truth_expected=1.0,
            logging_average=3.0,
        )
        for name, column in errors.items()
        for replicate, error in enumerate(column)
    ]


WILD: list[float | None] = [0.01] * 9 + [3.0]
FEW = {"good": [0.1, -0.1] * 5, "wild": WILD, "shy": [0.5, -0.5] * 5}
MANY = {"good": [0.2, -0.2] * 5, "wild": WILD, "shy": [None, None] * 5}


def test_one_parameter_that_varies_heads_the_columns() -> None:
    found = boards([*_records(10, FEW), *_records(500, MANY)])
    lines = render_overview(found).splitlines()
    assert lines[0].split() == ["RMSE", "by", "n_actions", "10", "500"]
    assert [line.split() for line in lines[1:4]] == [
        ["good", "0.100", "0.200"],
        ["wild", "0.949~", "0.949~"],
        ["shy", "0.500", "!100%"],
    ]
    assert "share of trials that failed" in lines[-1]


def test_a_narrow_terminal_shows_fewer_settings_and_says_so() -> None:
    found = boards([record for n in (10, 50, 100, 500) for record in _records(n, FEW)])
    text = render_overview(found, width=36)
    assert all(len(line) <= 64 for line in text.splitlines())
    assert "and 1 more setting" in text


def test_an_estimator_on_two_devices_has_a_row_for_each() -> None:
    slow = {"good": [0.4, -0.4] * 5}
    records = [*_records(10, FEW), *_records(10, slow, Device.CUDA), *_records(500, FEW)]
    rows = [line.split() for line in render_overview(boards(records)).splitlines()]
    assert ["good", "0.100", "0.100"] in rows
    assert ["good", "(cuda)", "0.400"] in rows
