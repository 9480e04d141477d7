"""Vega, Vega-Lite and Vega-Embed as one script, from the installed package.

It takes one or two seconds to build, and is kept for each version of vl-convert.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version

from ope_bench.report.page.cache import cached, is_cached, keep

__all__ = ["vega", "vega_in_background"]

SNIPPET = "window.vegaEmbed = vegaEmbed;"
ELSEWHERE = """
import sys, vl_convert
sys.stdout.buffer.write(vl_convert.javascript_bundle(sys.argv[1]).encode())
"""


@cache
def vega() -> str:
    """Return the script for use inside an element."""
    return _inside(cached(_name(), _build))


@contextmanager
def vega_in_background() -> Iterator[Callable[[], str]]:
    """Build the script in another process while this one continues, unless it is kept.

    vl-convert holds the GIL while it works, so a thread would not help.
    """
    if is_cached(_name()):
        yield vega
        return
    with subprocess.Popen(  # noqa: S603  our own interpreter on our own words
        [sys.executable, "-P", "-c", ELSEWHERE, SNIPPET],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as child:

        def script() -> str:
            made, _ = child.communicate()
            return _inside(keep(_name(), made.decode())) if child.returncode == 0 else vega()

        try:
            yield script
        finally:
            child.kill()


def _name() -> str:
    return f"vega-{version('vl-convert-python')}.js"


def _build() -> str:
    import vl_convert

    return str(vl_convert.javascript_bundle(SNIPPET))


def _inside(script: str) -> str:
    # Inside a string or a regular expression of a script, `<\/` means the same as `</`.
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")
