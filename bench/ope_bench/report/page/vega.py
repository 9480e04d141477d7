"""Vega, Vega-Lite and Vega-Embed as one script, from the installed package.

The script is the same for every page, and takes one or two seconds to build: it is kept in the
user's cache folder, one file for each version of vl-convert, if that folder can be written.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

from ope_bench.errors import OpeBenchError
from ope_bench.files import atomic_write

__all__ = ["vega", "vega_in_background"]

SNIPPET = "window.vegaEmbed = vegaEmbed;"
ELSEWHERE = """
import sys, vl_convert
sys.stdout.buffer.write(vl_convert.javascript_bundle(sys.argv[1]).encode())
"""


@cache
def vega() -> str:
    """Return the script for use inside an element; build it if it is not in the cache."""
    with suppress(OSError, UnicodeError, RuntimeError):
        return _inside(_cache_file().read_text(encoding="utf-8"))
    import vl_convert

    return _inside(_keep(vl_convert.javascript_bundle(SNIPPET)))


@contextmanager
def vega_in_background() -> Iterator[Callable[[], str]]:
    """Build the script in another process while this one continues, unless it is in the cache.

    vl-convert holds the GIL while it works, so a thread would not help.
    """
    if _is_kept():
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
            return _inside(_keep(made.decode())) if child.returncode == 0 else vega()

        try:
            yield script
        finally:
            child.kill()


def _is_kept() -> bool:
    with suppress(OSError, RuntimeError):
        return _cache_file().is_file()
    return False


def _cache_file() -> Path:
    """Return where the script is kept.

    Raises
    ------
    RuntimeError : the user has no home folder.
    """
    folder = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(folder, "ope-bench", f"vega-{version('vl-convert-python')}.js")


def _keep(script: str) -> str:
    """Return the script, and keep it if that is possible."""
    with suppress(OSError, OpeBenchError, RuntimeError):
        _cache_file().parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(_cache_file(), OpeBenchError) as partial:
            partial.write_text(script, encoding="utf-8")
    return script


def _inside(script: str) -> str:
    # Inside a string or a regular expression of a script, `<\/` means the same as `</`.
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")
