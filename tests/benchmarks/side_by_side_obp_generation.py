"""Generating synthetic logs side by side with Open Bandit Pipeline's class.

    python tests/benchmarks/side_by_side_obp_generation.py --peer PEER/bin/python

The peer draws one logged batch; ours draws the logs, a target sample of the same size, and the
truth. In turns, one thread each, every measurement in a fork of its own; memory is the peak rise.
A peer's batch that would take more memory than allowed is not drawn.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import interleaved
from statement import facts_now, statement

INSTALL = (
    "python3.11 -m venv PEER && PEER/bin/pip install"
    " sb-obp==0.5.10 scikit-learn==1.3.2 numpy==1.26.4 torch==2.13.0"
)
SIZES = tuple(f"{n}x{k}" for n in (1_000, 10_000, 100_000) for k in (10, 1_000, 5_000))
FIGURES = {"cpu_seconds": "processor, s", "seconds": "wall, s", "rise_mb": "memory, MB"}
SETTING = {"dim_context": 10, "beta": -1.0, "reward_std": 2.5}
TABLES = 9.1
"""How many (rows, actions) tables of floats the peer holds at once, from smaller sizes."""


def prepare(job: dict[str, Any]) -> None:
    """Imports; the first sample of a process is slower than all others."""
    draw(job["side"], 50, 5)


def work(_: None, job: dict[str, Any]) -> dict[str, Any]:
    """One batch, or several small ones."""
    n, n_actions = job["data"]
    return interleaved.measured(lambda _: draw(job["side"], n, n_actions), lambda: None)


def draw(side: str, n: int, n_actions: int) -> None:
    """What is measured."""
    if side == "ours":
        import numpy as np

        from ope_environments.saito.mips import SaitoMIPS

        environment = SaitoMIPS(n_actions=n_actions, n_samples=n)
        streams = np.random.SeedSequence(0).spawn(3)
        world, logged, target = map(np.random.default_rng, streams)
        environment.sample(world_rng=world, logged_rng=logged, target_rng=target)
        return
    from obp.dataset import SyntheticBanditDatasetWithActionEmbeds

    SyntheticBanditDatasetWithActionEmbeds(
        n_actions=n_actions, reward_type="continuous", random_state=0, **SETTING
    ).obtain_batch_bandit_feedback(n_rounds=n)


def compare(
    sizes: list[tuple[int, int]], given: argparse.Namespace, sides: dict[str, interleaved.Side]
) -> Iterator[dict[str, Any]]:
    """A row for every size."""
    for n, n_actions in sizes:
        job = {"data": (n, n_actions), "timeout": given.timeout, "memory": given.memory << 30}
        needs = TABLES * 8.0 * n * n_actions / 2**30
        words = f"not run: would need about {needs:.0f} GiB" if needs > given.memory else None

        def ask(side: str, job: dict[str, Any] = job, words: str | None = words) -> dict[str, Any]:
            if side == "peer" and words is not None:
                return {"failed": words}
            return sides[side].ask(job | {"side": side})

        found = interleaved.in_turns(
            {side: lambda side=side, ask=ask: ask(side) for side in sides},  # type: ignore[misc]
            seconds=given.budget,
            most=given.rounds,
        )
        row: dict[str, Any] = {"n": n, "n_actions": n_actions}
        for side, runs in found.items():
            failed = [one["failed"] for one in runs if "failed" in one]
            row[side] = {"failed": failed[0]} if failed else {}
            for name in FIGURES:
                values = [one[name] for one in runs if name in one]
                if values:
                    row[side][name] = interleaved.spread(values)
        row["ratios"] = interleaved.ratios(found["ours"], found["peer"], list(FIGURES))
        print("\n".join(lines(row)), flush=True)
        yield row


def lines(row: dict[str, Any]) -> list[str]:
    """Rows of the table."""
    found = []
    for name, label in FIGURES.items():
        cells = [f"{row['n']:,}", f"{row['n_actions']:,}", label]
        for side in ("ours", "peer"):
            cost = row[side].get(name)
            cells.append(f"{cost['median']:,.3g}" if cost else row[side].get("failed", "-"))
        found.append(f"| {' | '.join([*cells, interleaved.told(row['ratios'].get(name))])} |")
    return found


def markdown(report: dict[str, Any]) -> str:
    """The report to read."""
    intro = (
        "`saito-mips` against `SyntheticBanditDatasetWithActionEmbeds` of sb-obp"
        f" {report['peer']}, in turns, one thread each. The peer draws one logged batch, ours also"
        " the target sample and the truth. A ratio is the peer's figure over ours, median (lowest"
        " to highest) over rounds. Memory is the peak rise of resident memory; less than"
        f" {interleaved.LEAST_MEMORY_MB:.0f} MB counts as that."
    )
    return "\n".join(
        [
            "# Generating synthetic logs: ope-bench beside Open Bandit Pipeline",
            "",
            intro,
            "",
            "| rows | actions | figure | ours | peer | ratio |",
            "|---:|---:|:---|---:|---:|---:|",
            *(text for row in report["rows"] for text in lines(row)),
            "",
            f"The peer: `{INSTALL}`",
            "",
            statement(report["command"], report),
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", help="python of the peer's environment")
    parser.add_argument("--sizes", nargs="+", default=list(SIZES), help="ROWSxACTIONS")
    parser.add_argument("--rounds", type=int, default=5, help="at most, a size")
    parser.add_argument("--budget", type=float, default=10.0, help="seconds of rounds, a size")
    parser.add_argument("--timeout", type=float, default=240.0, help="seconds, a measurement")
    parser.add_argument("--memory", type=int, default=8, help="GiB that a measurement may take")
    parser.add_argument("--output", type=Path, help="FOLDER/NAME of the two files written")
    parser.add_argument("--serve", choices=["ours", "peer"], help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        interleaved.serve(prepare, work)
        return 0
    if given.peer is None:
        parser.error(f"the peer needs an environment of its own: {INSTALL}")
    sizes = [(int(n), int(a)) for n, a in (size.split("x") for size in given.sizes)]
    command = (
        f"python tests/benchmarks/{Path(__file__).name} --peer PEER/bin/python"
        f" --rounds {given.rounds} --budget {given.budget:g}"
        + ("" if tuple(given.sizes) == SIZES else f" --sizes {' '.join(given.sizes)}")
    )
    report = {"command": command, **facts_now(), "peer": "0.5.10"}
    sides = {
        "ours": interleaved.Side(sys.executable, __file__, "ours"),
        "peer": interleaved.Side(given.peer, __file__, "peer"),
    }
    try:
        report["rows"] = list(compare(sizes, given, sides))
    finally:
        for side in sides.values():
            side.close()
    if given.output:
        interleaved.written(given.output, report, markdown(report))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
