"""Vega, Vega-Lite and their embedder as one script, out of the installed package."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

__all__ = ["vega", "vega_meanwhile"]

SNIPPET = "window.vegaEmbed = vegaEmbed;"
ELSEWHERE = """
import sys, vl_convert
sys.stdout.buffer.write(vl_convert.javascript_bundle(sys.argv[1]).encode())
"""


@cache
def vega() -> str:
    """The script, fit to stand inside an element; it takes a second or two to make."""
    import vl_convert

    return _inside(vl_convert.javascript_bundle(SNIPPET))


@contextmanager
def vega_meanwhile() -> Iterator[Callable[[], str]]:
    """The script, made by another process while this one does something else.

    Its maker holds the interpreter's lock all the time, so a thread would not do.
    """
    with subprocess.Popen(  # noqa: S603  our own interpreter on our own words
        [sys.executable, "-P", "-c", ELSEWHERE, SNIPPET],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as child:

        def script() -> str:
            made, _ = child.communicate()
            return _inside(made.decode()) if child.returncode == 0 else vega()

        try:
            yield script
        finally:
            child.kill()


def _inside(script: str) -> str:
    # Inside a string or a regular expression of a script, `<\/` means the same as `</`.
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")
