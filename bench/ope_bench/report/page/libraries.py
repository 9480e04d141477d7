"""Vega and the specifications of charts, which take seconds to build and are cached on disk.

They depend on installed packages and on the code alone. They lie in the user's cache folder; where
it cannot be written, they are built anew for every page.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

from ope_bench.base.errors import OpeBenchError
from ope_bench.base.files import atomic_write
from ope_bench.statistics.coverage import LEVEL

_SNIPPET = "window.vegaEmbed = vegaEmbed;"
_CHART_SOURCES = ("charts.py", "chart_parts.py", "styles.py")


@cache
def vega() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script for use inside an element."""
    name = f"vega-{version('vl-convert-python')}.js"
    script = _read(name)
    if script is None:
        import vl_convert

        script = _write(name, str(vl_convert.javascript_bundle(_SNIPPET)))
    # Inside a string or a regular expression of a script, `<\/` means the same as `</`.
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")


@cache
def chart_specs() -> dict[str, Any]:
    """Return the charts of the page of boards in Vega-Lite, without data, by name."""
    code = hashlib.sha256(f"{version('altair')} {LEVEL}".encode())
    for source in _CHART_SOURCES:
        code.update((files("ope_bench.report") / source).read_bytes())
    name = f"charts-{code.hexdigest()[:16]}.json"
    # ValueError: the cached file is damaged.
    with suppress(ValueError):
        text = _read(name)
        if text is not None:
            cached: dict[str, Any] = json.loads(text)
            return cached
    from ope_bench.report.charts import CHARTS

    specs = {chart: chart_spec(make()) for chart, make in CHARTS.items()}
    _write(name, json.dumps(specs))
    return specs


def chart_spec(chart: Any) -> dict[str, Any]:
    """Return the specification of a chart without sizes and colors.

    The page sets them, for light and dark mode.
    """
    spec: dict[str, Any] = chart.to_dict(validate=False)
    spec.pop("config", None)
    return spec


def _cache_file(name: str) -> Path:
    # A user without a home folder: RuntimeError.
    folder = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(folder, "ope-bench", name)


def _read(name: str) -> str | None:
    """Return a cached text, None where there is none that can be read."""
    with suppress(OSError, UnicodeError, RuntimeError):
        return _cache_file(name).read_text(encoding="utf-8")
    return None


def _write(name: str, text: str) -> str:
    """Return the text, and cache it if that is possible."""
    with suppress(OSError, OpeBenchError, RuntimeError):
        _cache_file(name).parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(_cache_file(name), OpeBenchError) as partial:
            partial.write_text(text, encoding="utf-8")
    return text
