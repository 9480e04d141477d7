"""A router of language models

JSON lines of a router become a log, and the log answers: what would it cost in quality to send
every request to the small model?
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from ope_bench import Log, estimate, read_table

kept = tempfile.TemporaryDirectory()
folder = Path(kept.name)
lines, log = folder / "router.jsonl", folder / "log"

# The option --example first writes invented lines; your own file stands without it.
command = ["log", "import", "router-jsonl", str(lines), "-o", str(log), "--example"]
subprocess.run([sys.executable, "-m", "ope_bench", *command], check=True, capture_output=True)
print(lines.read_text().splitlines()[0])

table = read_table(log / "decisions.parquet")
frame = {name: table.numbers(name) for name in ("reward", "propensity", "tokens")}
codes, models = table.codes("action")
frame["model"] = np.array(models)[codes]
small = np.tile([0.0, 1.0], (table.n, 1))  # of large and small, in each row

result = estimate(
    Log.from_frame(
        frame,
        context=["tokens"],
        action="model",
        reward="reward",
        propensity="propensity",
        target=small,
        actions=["large", "small"],
    ),
    ["ipws", "sndr"],
)
print(result)
lift = result["sndr"]
print("ship" if lift.lift_low > 0 else "keep both models" if lift.lift_high < 0 else "cannot tell")
kept.cleanup()
