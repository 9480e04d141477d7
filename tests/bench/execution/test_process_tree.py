"""What a trial left behind is killed to the last descendant, whatever the system offers."""

from __future__ import annotations

import subprocess
import sys

import pytest

FAMILY = """
import os, subprocess, sys, time
import psutil
from ope_bench.execution import process_tree

adopts, platform = sys.argv[1:]
if adopts == "adopts":
    process_tree.adopt_orphans()
sys.platform = platform
here, there = os.pipe()
if os.fork() == 0:
    for _ in range(3):
        if os.fork() == 0:
            os.fork()
            os.write(there, b".")
            time.sleep(60)
    if adopts == "adopts":
        os._exit(0)  # its children become orphans
    time.sleep(60)
for _ in range(6):
    os.read(here, 1)
family = psutil.Process().children(recursive=True)
assert len(family) >= 6, family
process_tree.kill_children()
print(sum(one.is_running() and one.status() != "zombie" for one in family))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="adopting orphans is for Linux")
@pytest.mark.parametrize(
    ("adopts", "platform"),
    [("adopts", "linux"), ("does not adopt", "darwin")],
)
def test_no_descendant_survives(adopts: str, platform: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FAMILY, adopts, platform],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr


def test_nothing_is_imported_where_nothing_was_left() -> None:
    code = (
        "import sys; from ope_bench.execution.process_tree import kill_children\n"
        "kill_children(); assert 'psutil' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
