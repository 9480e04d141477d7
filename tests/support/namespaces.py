"""Whether this machine lets a process have its own processes, network and files."""

from __future__ import annotations

import shutil
import subprocess

import pytest

_ALONE = ("unshare", "--user", "--map-root-user", "--mount", "--net", "--pid", "--fork")
_MOUNTS = (*_ALONE, "mount", "-t", "tmpfs", "none", "/sys")

HAS_NAMESPACES = shutil.which("unshare") is not None and not (
    subprocess.run(_MOUNTS, check=False, capture_output=True).returncode
)

needs_namespaces = pytest.mark.skipif(not HAS_NAMESPACES, reason="no namespaces on this machine")
