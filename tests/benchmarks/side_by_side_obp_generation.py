"""Generating synthetic logs side by side with Open Bandit Pipeline's class.

    python tests/benchmarks/side_by_side_obp_generation.py --peer PEER/bin/python

Both sides run on this machine, in turns, one thread each, every measurement in a process of its
own: the seconds from nothing to the arrays, by the wall and of the processor (which others on the
machine do not lengthen), and by how much the resident memory rose at its peak (imports are neither
timed nor counted). The peer draws one logged batch; ours draws the logs, a
target sample of the same size, and the truth. ``--output FOLDER/NAME`` writes NAME.json, NAME.md.

The peer needs an environment of its own, because its pins conflict with everybody's; where it
cannot be run, the script says how to install it and measures ours alone.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

INSTALL = (
    "python3.11 -m venv PEER && PEER/bin/pip install"
    " sb-obp==0.5.10 scikit-learn==1.3.2 numpy==1.26.4 torch==2.13.0"
)
SIZES = ("10000x1000", "100000x1000")
FIGURES = {"seconds": "wall, s", "cpu_seconds": "processor, s", "rise_mb": "memory, MB"}
SETTING = {"dim_context": 10, "beta": -1.0, "reward_std": 2.5}


def generate_ours(n: int, n_actions: int) -> None:
    import numpy as np

    from ope_environments.saito.mips import SaitoMIPS

    environment = SaitoMIPS(n_actions=n_actions, n_samples=n)
    streams = np.random.SeedSequence(0).spawn(3)
    world, logged, target = map(np.random.default_rng, streams)
    with measured():
        environment.sample(world_rng=world, logged_rng=logged, target_rng=target)


def generate_peer(n: int, n_actions: int) -> None:
    from obp.dataset import SyntheticBanditDatasetWithActionEmbeds

    with measured():
        SyntheticBanditDatasetWithActionEmbeds(
            n_actions=n_actions, reward_type="continuous", random_state=0, **SETTING
        ).obtain_batch_bandit_feedback(n_rounds=n)


class measured:  # noqa: N801  read as a verb: with measured()
    """Prints the seconds and the peak rise of resident memory of its block as JSON."""

    def __enter__(self) -> None:
        # Writing 5 resets the high-water mark, which otherwise remembers the imports.
        Path("/proc/self/clear_refs").write_text("5")
        self.before = status("VmRSS")
        self.start = time.perf_counter(), time.process_time()

    def __exit__(self, *_: object) -> None:
        figures = {
            "seconds": time.perf_counter() - self.start[0],
            "cpu_seconds": time.process_time() - self.start[1],
            "rise_mb": (status("VmHWM") - self.before) / 1024.0,
        }
        print(json.dumps(figures))


def status(key: str) -> int:
    """A figure of this process in kilobytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1])
    msg = f"no {key} in /proc/self/status"
    raise OSError(msg)


def in_process(python: str, side: str, n: int, n_actions: int) -> dict[str, float]:
    one_thread = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
    done = subprocess.run(
        [python, __file__, "--side", side, "--sizes", f"{n}x{n_actions}"],
        env={**os.environ, **one_thread},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["it died without a word"])[-1]
        raise RuntimeError(last)
    figures: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return figures


def peer_version(python: str | None) -> str | None:
    """The peer's version, or None with a line on how to install it."""
    if python is not None and Path(python).exists():
        code = "import importlib.metadata as m, obp.dataset; print(m.version('sb-obp'))"
        asked = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
        if asked.returncode == 0:
            return asked.stdout.strip()
        print(f"the peer cannot be imported: {asked.stderr.strip().splitlines()[-1]}")
    print(f"the peer does not run here; install it in an environment of its own:\n  {INSTALL}")
    print("  then pass --peer PEER/bin/python")
    return None


def compare(sizes: list[tuple[int, int]], repeats: int, peer: str | None) -> list[dict[str, Any]]:
    rows = []
    for n, n_actions in sizes:
        runs: dict[str, list[dict[str, float]]] = {"ours": [], "peer": []}
        for _ in range(repeats):
            runs["ours"].append(in_process(sys.executable, "ours", n, n_actions))
            if peer is not None:
                runs["peer"].append(in_process(peer, "peer", n, n_actions))
        row: dict[str, Any] = {"n": n, "n_actions": n_actions}
        for side, figures in runs.items():
            for name in figures[0] if figures else ():
                values = [each[name] for each in figures]
                row[f"{side}_{name}"] = statistics.median(values)
                row[f"{side}_{name}_all"] = values
        if peer is not None:
            row["ratios"] = {
                name: row[f"peer_{name}"] / row[f"ours_{name}"] for name in runs["ours"][0]
            }
        print(json.dumps(row))
        rows.append(row)
    return rows


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def markdown(report: dict[str, Any]) -> str:
    intro = (
        "`saito-mips` against `SyntheticBanditDatasetWithActionEmbeds` of sb-obp"
        f" {report['peer']}, in turns on one machine ({report['processor']},"
        f" {report['cores']} cores), one thread each, median of {report['repeats']}.\n"
        "Memory is the peak rise of resident memory over what imports take. The peer draws one"
        " logged batch, ours also the target sample and the truth.\nWhere other work shares the"
        " machine, wall times suffer on both sides and processor times are the fairer figure."
    )
    rows = [
        f"| {row['n']:,} | {row['n_actions']:,} | {label} | {row[f'ours_{name}']:,.2f}"
        f" | {row[f'peer_{name}']:,.2f} | {row['ratios'][name]:.1f} |"
        for row in report["rows"]
        for name, label in FIGURES.items()
    ]
    return "\n".join(
        [
            "# Generating synthetic logs: ope-bench beside Open Bandit Pipeline",
            "",
            intro,
            "",
            "| rows | actions | figure | ours | peer | ratio |",
            "|---:|---:|:---|---:|---:|---:|",
            *rows,
            "",
            "Command, and how the peer was installed:",
            "",
            "```",
            report["command"],
            INSTALL,
            "```",
            "",
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", help="python of the peer's environment")
    parser.add_argument("--sizes", nargs="+", default=list(SIZES), help="ROWSxACTIONS")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path, help="FOLDER/NAME of the two files written")
    parser.add_argument("--side", choices=["ours", "peer"], help=argparse.SUPPRESS)
    given = parser.parse_args()
    sizes = [(int(n), int(a)) for n, a in (size.split("x") for size in given.sizes)]
    if given.side:
        {"ours": generate_ours, "peer": generate_peer}[given.side](*sizes[0])
        return 0
    version = peer_version(given.peer)
    report: dict[str, Any] = {
        "peer": version,
        "python": platform.python_version(),
        "processor": processor(),
        "cores": os.cpu_count(),
        "repeats": given.repeats,
        "command": "python tests/benchmarks/side_by_side_obp_generation.py"
        f" --peer PEER/bin/python --sizes {' '.join(given.sizes)} --repeats {given.repeats}",
        "rows": compare(sizes, given.repeats, given.peer if version else None),
    }
    if given.output and version:
        given.output.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(report, indent=2)
        given.output.with_suffix(".json").write_text(text + "\n")
        given.output.with_suffix(".md").write_text(markdown(report))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
