"""One thread for every numerical library, set before any of them is loaded.

Trials are pinned to one thread by the harness; tests that call estimators directly would else
start a thread pool a core, which on a busy machine costs minutes and buys nothing.
"""

import atexit
import os
import shutil
import tempfile

from hypothesis import settings

# On a busy machine any example may take seconds, which says nothing of the code. In CI the
# examples are the same each time, so that a red run is about the change at hand.
settings.register_profile("here", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")

# What is kept in the user's cache folder is left alone. A worker of pytest-xdist ends without its
# exit functions, so that its folder lies in the one that the main process removes.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ["XDG_CACHE_HOME"] += f"/{os.environ['PYTEST_XDIST_WORKER']}"
else:
    os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="ope-bench-caches-")
    atexit.register(shutil.rmtree, os.environ["XDG_CACHE_HOME"], ignore_errors=True)

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
