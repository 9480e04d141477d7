"""A gate for regressions

A baseline keeps the outcome of every trial; the gate runs them again and compares trial by trial.
Here someone forgets the weights' mean, and the gate says so.
"""

import subprocess
import sys
from pathlib import Path

MINE = """
from ope_bench import Access, Estimate, Estimator

class Mine(Estimator):
    access = Access.PROPENSITY | Access.TARGET_POLICY

    def estimate(self, view):
        weights = view.target_policy.probability(view.context, view.action) / view.propensity
        return Estimate(float((weights * view.reward).sum() / weights.sum()), weights=weights)
"""


def ope_bench(*arguments):
    """Run a command and show what it prints."""
    print("$ ope-bench", *arguments, flush=True)
    command = [sys.executable, "-m", "ope_bench", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    print(done.stdout.strip() or done.stderr.strip())
    print(f"exit code {done.returncode}\n", flush=True)


what = ["--env", "saito-toy[n_actions=20]", "--est", "./mine.py:Mine", "--replicates", "20"]
Path("mine.py").write_text(MINE)
ope_bench("run", *what)
ope_bench("baseline", "save", "baseline.json", *what)

Path("mine.py").write_text(MINE.replace("weights.sum()", "len(weights)"))
ope_bench("gate", "baseline.json")
