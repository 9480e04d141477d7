"""Sphinx extension: the gallery's scripts as pages, with what they print and draw.

Scripts run when the site is built. Output is kept in ``build/gallery`` and used again while
neither the script nor any file of the packages changes.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import json
import multiprocessing
import os
import re
import runpy
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from committed import ROOT
from plugin_pages import write_pages

if TYPE_CHECKING:
    from sphinx.application import Sphinx

__all__ = ["ORDER", "Example", "ScriptError", "example", "setup"]

FOLDER = ROOT / "bench" / "docs" / "gallery"
ORDER = (
    *("first_run", "sweep", "own_log", "several_policies", "ab_test", "router"),
    *("write_an_estimator", "write_an_environment", "paper", "gate"),
)
PACKAGES = ("bench/ope_bench", "estimators/ope_estimators", "environments/ope_environments")
SHARED = ("ope_bench.api", "ope_bench.logs", "ope_bench.report.charts", "vl_convert")
"""What several scripts import."""

SECONDS = 300


class ScriptError(RuntimeError):
    """A script of the gallery ended with an error."""


@dataclass(frozen=True)
class Example:
    """A script with its output.

    Parameters
    ----------
    title, text : first line and rest of its docstring.
    code : without the docstring.
    output : what it printed.
    figure : the SVG that it saved, "" for none.
    """

    title: str
    text: str
    code: str
    output: str
    figure: str


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("builder-inited", _write)
    return {"parallel_read_safe": True}


def _write(app: Sphinx) -> None:
    folder = Path(app.srcdir) / "bench" / "docs"
    for name in SHARED:
        importlib.import_module(name)
    found = {name: example(name) for name in ORDER}
    pages = {f"examples/{_page(name)}.md": _text(name, one) for name, one in found.items()}
    listed = "\n\n".join(_card(name, one) for name, one in found.items())
    tree = "\n".join(_page(name) for name in ORDER)
    pages["examples/index.md"] = (
        "# Examples\n\nShort scripts, run when this site was built, with what they print.\n\n"
        f"::::{{container}} doors pictures\n{listed}\n::::\n\n"
        f"```{{toctree}}\n:hidden:\n\n{tree}\n```\n"
    )
    write_pages(folder, pages)
    for name, one in found.items():
        if one.figure:
            (folder / "examples" / f"{_page(name)}.svg").write_text(one.figure, encoding="utf-8")


def _page(name: str) -> str:
    return name.replace("_", "-")


def _card(name: str, one: Example) -> str:
    """Return a picture of a script for the list: what it draws, else the first lines it prints."""
    lines = [line[:46] for line in one.output.splitlines() if line.strip()][:7]
    shown = (
        f"![{one.title}]({_page(name)}.svg)"
        if one.figure
        else "```text\n" + "\n".join(lines) + "\n```"
    )
    about = re.split(r"(?<=[.?]) ", one.text)[0].removesuffix(":")
    return f":::{{container}} door\n**[{one.title}]({_page(name)}.md)**\n\n{about}\n\n{shown}\n:::"


def _text(name: str, one: Example) -> str:
    figure = f"\n\n![{one.title}]({_page(name)}.svg)" if one.figure else ""
    return (
        f"# {one.title}\n\n{one.text}\n\n```python\n{one.code}\n```\n\nprints\n\n"
        f"```text\n{one.output}\n```{figure}\n"
    )


def example(name: str) -> Example:
    """Return a script of the gallery with its output, from the cache where nothing has changed.

    Raises
    ------
    ScriptError : it ended with an error; the message has its traceback.
    """
    source = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    key = hashlib.sha256(f"{_code_digest()}{source}".encode()).hexdigest()[:32]
    kept = ROOT / "build" / "gallery" / f"{key}.json"
    if kept.is_file():
        output, figure = json.loads(kept.read_text(encoding="utf-8"))
    else:
        output, figure = _run(FOLDER / f"{name}.py")
        kept.parent.mkdir(parents=True, exist_ok=True)
        part = kept.with_suffix(f".{os.getpid()}")
        part.write_text(json.dumps([output, figure]), encoding="utf-8")
        part.replace(kept)
    tree = ast.parse(source)
    title, _, text = (ast.get_docstring(tree) or name).partition("\n\n")
    code = "\n".join(source.splitlines()[tree.body[0].end_lineno or 0 :]).strip()
    return Example(title, " ".join(text.split()), code, output, figure)


@cache
def _code_digest() -> str:
    digest = hashlib.sha256(sys.version.encode())
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _run(script: Path) -> tuple[str, str]:
    """Run a script in an empty folder; return what it prints and draws.

    It runs in a fork of this process, which has imported the libraries; after Polars has been used
    a fork would wait for its threads for ever.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "empty").mkdir()
        method = "spawn" if "polars" in sys.modules else "fork"
        context: Any = multiprocessing.get_context(method)
        process = context.Process(target=_execute, args=(script, folder))
        process.start()
        process.join(SECONDS)
        process.kill()
        process.join()
        printed, said = (
            (folder / name).read_text(encoding="utf-8") for name in ("printed", "said")
        )
        if process.exitcode:
            msg = f"{script.name} ended with code {process.exitcode}:\n{said}"
            raise ScriptError(msg)
        figure = folder / "empty" / "figure.svg"
        drawn = figure.read_text(encoding="utf-8") if figure.is_file() else ""
    return printed.strip(), drawn


def _execute(script: Path, folder: Path) -> None:
    """Run a script with its streams as files; for a process of its own."""
    for place, name in ((1, "printed"), (2, "said")):
        os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT), place)
    sys.stdout, sys.stderr = (
        os.fdopen(place, "w", encoding="utf-8", closefd=False) for place in (1, 2)
    )
    os.chdir(folder / "empty")
    os.environ.pop("OPE_BENCH_STORE", None)
    os.environ |= {"COLUMNS": "96", "NO_COLOR": "1"}
    sys.argv = [str(script)]
    runpy.run_path(str(script), run_name="__main__")
