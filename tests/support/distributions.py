"""Distributions as pip would leave them, without pip."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path


def write_distribution(
    folder: Path, name: str, group: str, points: Mapping[str, str], source: str
) -> None:
    """Put a module and its entry points of one group into a folder that is on sys.path."""
    module = name.replace("-", "_")
    (folder / f"{module}.py").write_text(source)
    info = folder / f"{module}-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
    lines = [f"{point} = {module}:{target}" for point, target in points.items()]
    (info / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines]) + "\n")
    importlib.invalidate_caches()
