"""Compare sealed trials with open ones: every number bit for bit, and seconds of the processor.

    python results/performance/scripts/sealed_trials.py [--replicates 1]

Twenty estimators of ope-bench under the names of another package, on five environments.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from collections import Counter
from dataclasses import fields, replace
from pathlib import Path

import psutil

from ope_bench.execution import Finished
from ope_bench.execution.local import LocalExecutor, foreign_code_apart
from ope_bench.plugins.registry import registry
from ope_bench.suites.manifest import plan
from ope_bench.suites.suite import adhoc
from ope_bench.trials.record import TrialRecord

ENVIRONMENTS = (
    "saito-toy[n_actions=10,n_samples=300]",
    "saito-mips[n_actions=50,n_samples=500]",
    "population[n_samples=300,n_actions=4]",
    "linear-gaussian[n_samples=300]",
    "behance[max_probability=1,epsilon=0.5,items=200,users=100,appreciates=2000,n_samples=500]",
)

ESTIMATORS = (
    *("logging-average", "ipw", "ipws", "ipw-star", "ix-ipw", "ls-ipw", "el-ipw", "kernel-ipw"),
    *("dm", "dm-star", "dr", "dr-os", "switch-dr", "mrdr", "tmle", "mips", "eipw", "epws"),
    *("offcem", "select"),
)

MEASURED = {"key", "code_digest", "fit_seconds", "estimate_seconds", "fit_cpu_seconds"} | {
    *("shared_seconds", "peak_rss_bytes", "gpu_peak_bytes", "traceback", "origin")
}
"""Fields that differ from run to run, and those of the process that ran."""


def install(folder: Path) -> None:
    """Put a distribution whose estimators are those of ope-bench into a folder."""
    found = {one.id: one.target for one in registry().plugins("estimator") if one.is_ours}
    (folder / "acme_copies").mkdir()
    lines = [
        f"from {found[one].replace(':', ' import ')} as C{n}" for n, one in enumerate(ESTIMATORS)
    ]
    (folder / "acme_copies" / "__init__.py").write_text("\n".join(lines))
    info = folder / "acme_copies.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-copies\nVersion: 1.0\n")
    points = [f"copy-{one} = acme_copies:C{n}" for n, one in enumerate(ESTIMATORS)]
    (info / "entry_points.txt").write_text("[ope_bench.estimators]\n" + "\n".join(points))
    (info / "RECORD").write_text("acme_copies/__init__.py,,\n")


def run(replicates: int, *, sealed: bool) -> dict[str, TrialRecord]:
    """Run all; return the records by key."""
    names = [f"copy-{one}" for one in ESTIMATORS]
    apart = foreign_code_apart(hidden=[]) if sealed else contextlib.nullcontext()
    found = {}
    with apart as foreign:
        manifest = plan(replace(adhoc(ENVIRONMENTS, names), replicates=replicates, timeout=600.0))
        begun = time.perf_counter()
        with LocalExecutor(1, timeout=600.0, foreign=foreign) as executor:
            for event in executor.run(manifest.trials):
                if isinstance(event, Finished):
                    found[event.record.key] = event.record
        seconds = time.perf_counter() - begun
    print(f"{'sealed' if sealed else 'open'}: {len(found)} trials in {seconds:.1f} s", flush=True)
    return found


def main() -> int:
    """Compare; return 1 if anything differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--replicates", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        install(Path(folder))
        sys.path.append(folder)
        registry.cache_clear()
        before, after = run(given.replicates, sealed=False), run(given.replicates, sealed=True)
    compared = [one.name for one in fields(TrialRecord) if one.name not in {"trial", *MEASURED}]
    differ = 0
    for key, one in before.items():
        for name in compared:
            was, now = getattr(one, name), getattr(after[key], name)
            if repr(was) != repr(now):
                differ += 1
                what = f"{one.trial.estimator.id} on {one.trial.environment.id}"
                print(f"{what}: {name} {was!s:.200} | {now!s:.200}")
    told = dict(Counter(one.status.value for one in after.values()))
    print(f"{len(before)} trials, {differ} differences, {told}")
    print(f"load {psutil.getloadavg()[0]:.1f}")
    return int(differ > 0 or before.keys() != after.keys())


if __name__ == "__main__":
    sys.exit(main())
