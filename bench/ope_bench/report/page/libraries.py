"""Vega and the specifications of charts, which take seconds to build and are cached on disk.

They depend on installed packages and on the code alone. They lie in the user's cache folder; where
it cannot be written, they are built anew for every page.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from ope_bench.base.files import read_cache, write_cache
from ope_bench.statistics.coverage import LEVEL

_SNIPPET = "window.vegaEmbed = vegaEmbed;"
_CHART_SOURCES = ("charts.py", "chart_parts.py", "styles.py")


@cache
def vega() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script for use inside an element."""
    name = f"vega-{version('vl-convert-python')}.js"
    script = read_cache(name)
    if script is None:
        import vl_convert

        script = write_cache(name, str(vl_convert.javascript_bundle(_SNIPPET)))
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
        text = read_cache(name)
        if text is not None:
            cached: dict[str, Any] = json.loads(text)
            return cached
    from ope_bench.report.charts import CHARTS

    specs = {chart: chart_spec(make()) for chart, make in CHARTS.items()}
    write_cache(name, json.dumps(specs))
    return specs


def chart_spec(chart: Any) -> dict[str, Any]:
    """Return the specification of a chart without sizes and colors.

    The page sets them, for light and dark mode.
    """
    spec: dict[str, Any] = chart.to_dict(validate=False)
    spec.pop("config", None)
    return spec
