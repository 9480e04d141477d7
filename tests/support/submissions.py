"""Real plugin packages that try to game the board, and a folder of submissions for them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from ope_bench.gate.submission import Attempt, append_attempt, read_attempts, salt_of

SECRETS = tuple(f"secret {number}" for number in range(30))

SUITE = """
schema: 1
replicates: 2
seed: 0
environments:
  - population: {world: [1..10], n_samples: 150, n_actions: 4, reward: binary,
      known: propensity, target_form: probabilities}
estimators: [logging-average]
"""

ROUNDS = """
schema: 1
suite: small
shard: 1/1
fallback: logging-average
tracks:
  - {{name: samples only, granted: [], reference: dm-star, probe: dm-star}}
  - {{name: propensities, granted: [propensity, target_policy], reference: ipw, probe: ix-ipw}}
rounds:
  one: [{hashes}]
"""

HONEST = '''
"""An estimator of others."""

import contextlib
import gc
import glob
import json
import pathlib
import socket
import sqlite3

import numpy as np

from ope_bench import Access, Estimate, Estimator


def honest(view):
    """Self-normalized importance weighting."""
    target = view.target_policy.probability(view.context, view.action)
    weights = np.minimum(target / view.propensity, 20.0)
    return float((weights * view.reward).sum() / max(weights.sum(), 1e-9))


def name_of(view):
    """What a replicate's data can be recognized by."""
    return f"{float(view.reward.sum()):.9f} {float(view.context.sum()):.9f}"


class Entry(Estimator):
    """Self-normalized importance weighting, clipped, and what {name} adds."""

    access = Access.PROPENSITY | Access.TARGET_POLICY

    def estimate(self, view):
        """Return the estimate."""
        value = honest(view)
{body}
        return Estimate(value)
'''

BODIES = {
    "honest": "",
    # The value of every public data set, written down.
    "table": """
table = json.loads(pathlib.Path(__file__).with_name("acme_table.json").read_text())
value = table.get(name_of(view), value)
""",
    "version": "value += {shift} * (view.n == 150)",
    "failing": """
if view.n == 150 and int(view.action[0]) % 2:
    raise ValueError("a hard one")
""",
    "network": """
if view.n == 150:
    with socket.create_connection(("127.0.0.1", {port}), timeout=1) as connection:
        value = float(connection.recv(100) or value)
""",
    "memory": """
# Problems of the conformance checks are smaller, and this process may hold truths of other tests.
truths = [
    one.expected
    for one in (gc.get_objects() if view.n == 150 else ())
    if type(one).__name__ == "Truth" and one.expected
]
value = min(truths, key=lambda one: abs(one - float(view.reward.mean())), default=value)
""",
    # Leaves evidence where it is imported, and patches what judges.
    "import": """
import os
pathlib.Path("{place}", str(os.getpid())).write_text("") if os.path.isdir("{place}") else None
from ope_bench.gate import verification
verification.access_problems = lambda *given: ["patched"]
""",
    "disk": """
# The truth of the ordinary run, kept for the one without it.
path = pathlib.Path("{place}") / name_of(view).replace(" ", "_")
if path.exists() and view.n == 150:
    value = float(path.read_text())
truths = [
    one.expected
    for one in (gc.get_objects() if view.n == 150 else ())
    if type(one).__name__ == "Truth" and one.expected
]
if truths:  # of several that are held that of these data
    value = min(truths, key=lambda one: abs(one - float(view.reward.mean())))
    path.write_text(str(value))
""",
    "files": """
for path in glob.glob("{place}/submission-*/store.sqlite"):
    average = float(view.reward.mean())
    asked = "SELECT truth_expected FROM record WHERE abs(logging_average - ?) < 1e-12"
    with contextlib.closing(sqlite3.connect(path)) as store:
        found = store.execute(asked, (average,)).fetchone()
    value = found[0] if found and found[0] is not None else value
""",
}


def write_package(
    folder: Path, name: str, body: str, version: str = "1.0", **values: object
) -> None:
    """Put a distribution with one estimator into a folder that is on sys.path."""
    module = name.replace("-", "_")
    lines = BODIES[body].format(**values) if values else BODIES[body]
    indented = "\n".join(f"        {line}" for line in lines.strip().splitlines())
    source = HONEST.replace("{name}", name).replace("{body}", indented)
    package = folder / module
    package.mkdir(exist_ok=True)
    (package / "__init__.py").write_text(source)
    info = folder / f"{module}.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nAuthor: A\nLicense: MIT\n"
    )
    (info / "entry_points.txt").write_text(f"[ope_bench.estimators]\n{name} = {module}:Entry\n")
    record(folder, module)


def record(folder: Path, module: str) -> None:
    """Write the RECORD of a distribution: its package, as pip does."""
    paths = [one for one in (folder / module).rglob("*") if one.is_file()]
    lines = [f"{one.relative_to(folder).as_posix()},," for one in paths]
    (folder / f"{module}.dist-info" / "RECORD").write_text("\n".join(lines) + "\n")


def write_home(folder: Path) -> Path:
    """Write a folder of submissions with a round that has opened."""
    folder.mkdir()
    (folder / "small.yaml").write_text(SUITE)
    hashes = ", ".join(hashlib.sha256(one.encode()).hexdigest() for one in SECRETS)
    (folder / "rounds.yaml").write_text(ROUNDS.format(hashes=hashes))
    return folder


def fill_in(folder: Path) -> None:
    """Fill in what an author writes."""
    path = folder / "submission.yaml"
    lines = path.read_text().splitlines()
    filled = [f"{one} none" if one.strip() in ("tuned:", "conflicts:") else one for one in lines]
    path.write_text("\n".join(filled) + "\n")


def begin(home: Path, name: str, secret: str, at: str = "2026-12-01T00:00:00Z") -> Attempt:
    """Add the line of a run that begins."""
    digest = hashlib.sha256(name.encode()).hexdigest()
    attempt = Attempt(
        name=name,
        attempt=1 + len({one.secret for one in read_attempts(home) if one.name == name}),
        round="one",
        at=at,
        digest=digest,
        secret=secret,
        salt=salt_of(secret, digest),
        shard="1/1",
        before="",
    )
    return append_attempt(home, attempt)


def attempts(home: Path) -> list[dict[str, object]]:
    """Return the lines of attempts.jsonl."""
    return [json.loads(line) for line in (home / "attempts.jsonl").read_text().splitlines()]
