"""The charts of a page in Vega-Lite; they contain no data.

Altair takes half a second to build them, so they are kept for each version of it and of the code.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from ope_bench.report import charts
from ope_bench.report.page.cache import cached, keep
from ope_bench.statistics.coverage import LEVEL

__all__ = ["chart_specs"]


@cache
def chart_specs() -> dict[str, Any]:
    """Return each chart by its name."""
    name = f"charts-{_digest()}.json"
    found: dict[str, Any]
    try:
        found = json.loads(cached(name, _build))
    except ValueError:
        # The kept file is damaged.
        found = json.loads(keep(name, _build()))
    return found


def _build() -> str:
    specs = {name: chart().to_dict(validate=False) for name, chart in charts.CHARTS.items()}
    for spec in specs.values():
        # The page sets colors and sizes, for light and dark mode.
        spec.pop("config", None)
    return json.dumps(specs)


def _digest() -> str:
    """Return a digest of all that charts are made of."""
    code = hashlib.sha256(f"{version('altair')} {LEVEL}".encode())
    sources = [one for one in files(charts).iterdir() if one.name.endswith(".py")]
    for source in sorted(sources, key=lambda one: one.name):
        code.update(source.read_bytes())
    return code.hexdigest()[:16]
