"""Count the harness: lines of code, files, folders, functions called once, share of imports.

    python tests/size.py                  write bench/design/size.md
    python tests/size.py --tree FOLDER    print the counts of another checkout

Counts come from the syntax tree: a line of code holds a token that is no comment and no part of a
docstring. A private function counts as called once where its own file names it exactly once.
The shares of imports and comments are of all lines of a file.
"""

from __future__ import annotations

import argparse
import ast
import io
import os
import subprocess
import sys
import tempfile
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "bench" / "design" / "size.md"
BLANK = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
PACKAGES = ("bench/ope_bench", "estimators/ope_estimators", "environments/ope_environments")

TRACER = """
import os, sys, threading
if target := os.environ.get("OPE_BENCH_TRACE"):
    seen, out = set(), os.open(target, os.O_APPEND | os.O_CREAT | os.O_WRONLY)
    def note(frame, event, argument):
        code = frame.f_code
        if code not in seen:
            seen.add(code)
            if "/ope_bench/" in code.co_filename:
                os.write(out, f"{code.co_filename}\\t{code.co_qualname}\\n".encode())
    sys.setprofile(note)
    threading.setprofile(note)
"""
"""Python imports a module `sitecustomize` at its start, in worker processes too."""


@dataclass(frozen=True)
class Size:
    """Counts of one package or of several."""

    lines: int = 0
    code: int = 0
    comments: int = 0
    imports: int = 0
    files: int = 0
    functions: int = 0
    called_once: int = 0

    def __add__(self, other: Size) -> Size:
        return Size(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Size)))


def size_of(path: Path) -> Size:
    """Count one file."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    lines = {n for t in tokens if t.type not in BLANK for n in range(t.start[0], t.end[0] + 1)}
    lines -= {n for span in _docstrings(tree) for n in span}
    imports = {
        n
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt) and _is_import(node)
        for n in _span(node)
    }
    functions = [node for node in ast.walk(tree) if isinstance(node, FUNCTION)]
    uses = Counter(
        node.attr if isinstance(node, ast.Attribute) else node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load))
    )
    once = [f for f in functions if f.name[0] == "_" != f.name[1] and uses[f.name] == 1]
    comments = {
        t.start[0] for t in tokens if t.type == tokenize.COMMENT and "noqa" not in t.string
    }
    return Size(
        text.count("\n"), len(lines), len(comments), len(imports), 1, len(functions), len(once)
    )


def _docstrings(tree: ast.Module) -> Iterator[range]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, *FUNCTION)) and ast.get_docstring(node):
            yield _span(node.body[0])


def _span(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _is_import(node: ast.stmt) -> bool:
    if isinstance(node, ast.Assign):
        return isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__all__"
    return isinstance(node, ast.Import | ast.ImportFrom)


def entered(root: Path) -> tuple[int, int]:
    """Count files and functions of the harness that one trial enters, from command to board."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "sitecustomize.py").write_text(TRACER, encoding="utf-8")
        trace = Path(folder) / "trace"
        paths = [
            folder,
            *(str(root / package) for package in ("bench", "estimators", "environments")),
        ]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(paths),
            "OPE_BENCH_TRACE": str(trace),
            "OPE_BENCH_STORE": str(Path(folder) / "trial.sqlite"),
        }
        command = "run --env saito-toy[n_samples=100] --est ipw --replicates 1"
        subprocess.run(
            [sys.executable, "-m", "ope_bench", *command.split()],
            env=environment,
            check=True,
            capture_output=True,
        )
        found = {line.partition("\t")[::2] for line in trace.read_text("utf-8").splitlines()}
    inner = {(file, name) for file, name in found if "<" not in name.rpartition(".")[2]}
    return len({file for file, _ in inner}), len(inner)


def sizes(root: Path, package: str) -> dict[str, Size]:
    """Count a package by its rooms: its folders, and its files at the top."""
    found: dict[str, Size] = {}
    base = root / package
    for path in sorted(base.rglob("*.py")):
        if "templates" not in path.parts:
            room = path.relative_to(base).parts[0]
            found[room] = found.get(room, Size()) + size_of(path)
    return found


def folders(root: Path) -> int:
    """Count the folders of the harness that hold code."""
    base = root / PACKAGES[0]
    return len({p.parent for p in base.rglob("*.py") if "templates" not in p.parts})


def summary(root: Path) -> dict[str, str]:
    """Return the figures of the harness that have a target."""
    total = sum(sizes(root, PACKAGES[0]).values(), Size())
    files, functions = entered(root)
    return {
        "lines of code": f"{total.code:,}",
        "files": f"{total.files}",
        "folders": f"{folders(root)}",
        "private functions called once": f"{total.called_once / total.functions:.0%}",
        "imports and `__all__`": f"{total.imports / total.lines:.1%}",
        "comments, share of lines": f"{total.comments / total.lines:.1%}",
        "files that one trial enters": f"{files}",
        "functions that one trial enters": f"{functions}",
    }


BEFORE = {
    "lines of code": "29,918",
    "files": "351",
    "folders": "40",
    "private functions called once": "26%",
    "imports and `__all__`": "10.1%",
    "comments, share of lines": "0.9%",
    "files that one trial enters": "135",
    "functions that one trial enters": "779",
}
"""What this script counts at afc6d47, before the second redesign."""

TARGET = {
    "lines of code": "24,500; 26,500 after what is planned",
    "files": "about 141",
    "folders": "18",
    "private functions called once": "15%",
    "imports and `__all__`": "6%",
    "files that one trial enters": "75",
}


def main() -> None:
    """Write the page, or print the counts of another checkout."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tree", type=Path)
    tree = parser.parse_args().tree
    if tree is not None:
        for name, figure in summary(tree).items():
            print(f"{name}: {figure}")
        return
    head = PAGE.read_text(encoding="utf-8").partition("<!-- made")[0]
    lines = ["<!-- made by tests/size.py -->"]
    lines.append("| the harness | at afc6d47 | today | target |")
    lines.append("| --- | ---: | ---: | ---: |")
    for name, figure in summary(ROOT).items():
        lines.append(f"| {name} | {BEFORE.get(name, '')} | {figure} | {TARGET.get(name, '')} |")
    lines += ["", "| package | code | files | functions | called once | imports |"]
    lines.append("| --- | ---: | ---: | ---: | ---: | ---: |")
    for package in PACKAGES:
        rooms = sizes(ROOT, package)
        rows = [(f"**`{package.rpartition('/')[2]}`**", sum(rooms.values(), Size()))]
        rows += [(f"`{name}`", one) for name, one in rooms.items()]
        for name, one in rows:
            once = one.called_once / one.functions if one.functions else 0.0
            share = one.imports / one.lines if one.lines else 0.0
            counts = f"{one.code:,} | {one.files} | {one.functions}"
            lines.append(f"| {name} | {counts} | {once:.0%} | {share:.0%} |")
    PAGE.write_text(head + "\n".join(lines) + "\n<!-- end -->\n", encoding="utf-8")


if __name__ == "__main__":
    main()
