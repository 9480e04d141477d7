from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from bench.cli.conftest import Cli


@pytest.mark.slow
def test_quick_in_small_shows_who_fails_and_what_takes_how_long(cli: Cli) -> None:
    said = cli("run", "--replicates", "1", "--format", "json")
    assert said.code == 0, said.err
    assert said.json["suite"] == "quick"
    few, many = (
        {row["label"]: row for row in board["rows"]}
        for board in cli("leaderboard", "--format", "json").json["boards"]
        if board["environment_params"]["n_actions"] in (10, 500)
    )
    assert len(few) >= 8
    assert few["ipw-star"]["failure_rate"] == 0
    assert many["ipw-star"]["status"] == {"positivity": 1}
    assert all(many[name]["failure_rate"] == 0 for name in ("epw", "epws", "epws-paper", "eipw"))
    timed = cli("leaderboard", "--by", "time", "--format", "json").json["boards"]
    assert len(timed) == 3
    # A row that failed throughout has no time.
    assert max(len(board["rows"]) for board in timed) == len(few)
    assert all(row["fit_seconds"] is not None for board in timed for row in board["rows"])
