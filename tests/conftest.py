"""One thread for every numerical library, set before any of them is loaded.

Trials are pinned to one thread by the harness; tests that call estimators directly would else
start a thread pool a core, which on a busy machine costs minutes and buys nothing.
"""

import os

from hypothesis import settings

# In CI the examples are the same each time, so that a red run is about the change at hand.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
