"""A plan in shards on machines that share nothing, and its stores put together again."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from ope_bench.store import Store

if TYPE_CHECKING:
    from bench.cli.conftest import Cli


@pytest.fixture
def run(cli: Cli, tiny: Callable[[str], str]) -> Callable[..., Any]:
    """Run two estimators on ten replicates, in this process."""
    plan = ["--env", tiny("Coins"), "--est", tiny("Average"), "--est", tiny("Missing")]

    def go(store: str, *more: str) -> Any:
        fixed = ("--replicates", "10", "--executor", "inprocess", "--store", store)
        return cli("run", *plan, *fixed, "--format", "json", *more)

    return go


def answers(path: str) -> list[tuple[object, ...]]:
    with Store.open(path) as store:
        return [(one.key, one.status, one.estimate, one.code_digest) for one in store.records()]


def test_shards_merged_are_the_whole_run_bit_by_bit(cli: Cli, run: Callable[..., Any]) -> None:
    assert run("whole.sqlite").code == 0
    said = [run(f"{number}.sqlite", "--shard", f"{number}/3") for number in (1, 2, 3)]
    assert [one.json["shard"] for one in said] == ["1/3", "2/3", "3/3"]
    assert sum(one.json["planned"] for one in said) == 20
    others = ("2.sqlite", "3.sqlite")
    merged = cli("store", "merge", *others, "--store", "1.sqlite", "--format", "json")
    assert merged.json["added"] == said[1].json["planned"] + said[2].json["planned"]
    assert merged.json["conflicts"] == []
    assert answers("1.sqlite") == answers("whole.sqlite")
    boards = [
        cli("leaderboard", "--store", store, "--format", "json").json["boards"]
        for store in ("1.sqlite", "whole.sqlite")
    ]
    for board in (*boards[0], *boards[1]):
        for row in board["rows"]:
            for cost in ("fit_seconds", "estimate_seconds", "peak_rss_bytes"):
                del row[cost]
    assert boards[0] == boards[1]
    # Nothing is left to do for the whole plan.
    assert run("1.sqlite").json["reused"] == 20


def test_answers_that_differ_are_told_and_kept(cli: Cli, run: Callable[..., Any]) -> None:
    run("a.sqlite")
    run("b.sqlite")
    with sqlite3.connect("b.sqlite") as other:
        other.execute("UPDATE record SET estimate = estimate + 1 WHERE replicate = 3")
        other.execute("UPDATE record SET code_digest = 'older' WHERE replicate = 4")
        other.execute("UPDATE record SET status = 'timeout' WHERE replicate = 5")
    other.close()
    said = cli("store", "merge", "b.sqlite", "--store", "a.sqlite", "--format", "json")
    assert said.code == 0
    (one,) = said.json["conflicts"]
    assert (one["replicate"], one["estimator"], one["other"]) == (3, "average", "b.sqlite")
    assert one["there"]["estimate"] == one["here"]["estimate"] + 1
    assert said.json["other_code"] == 2
    assert said.json["added"] == 20
    assert "conflict  average on coins, replicate 3" in said.err
    assert "as far as they are compared" in said.err
    assert "1 conflicts" in said.err


def test_a_missing_store_among_several_changes_nothing(cli: Cli, run: Callable[..., Any]) -> None:
    run("a.sqlite", "--shard", "1/2")
    run("b.sqlite", "--shard", "2/2")
    before = answers("a.sqlite")
    assert cli("store", "merge", "b.sqlite", "c.sqlite", "--store", "a.sqlite").code == 2
    assert answers("a.sqlite") == before


def test_what_is_no_shard_is_told_in_one_line(cli: Cli) -> None:
    said = cli("run", "--shard", "3/2")
    assert said.code == 2
    assert "'--shard': '3/2' is not a shard" in said.err
    assert said.err.count("\n") == 1
