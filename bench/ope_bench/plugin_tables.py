"""The tables in the packages' READMEs, made from the code.

``python -m ope_bench.plugin_tables FOLDER`` writes them into the READMEs of a checkout.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from ope_bench.execution.threads import pinned
from ope_bench.registry import Kind, Plugin, registry
from ope_bench.testing.answering import Examined
from ope_bench.testing.checks import NotApplicable
from ope_bench.testing.docstrings import formula_of, reference_of
from ope_bench.testing.problems import UNSUPPORTED

__all__ = ["READMES", "environment_table", "estimator_table", "module_table", "with_table"]

_BEGIN, _END = "<!-- made by ope_bench.plugin_tables -->", "<!-- end -->"


def estimator_table() -> str:
    """A row for each built-in estimator; support is missing in two problems, and both are run."""
    heads = ("id", "what", "formula", "access", *UNSUPPORTED, "fails when", "reference")
    return _markdown(heads, map(_estimator_row, _built_in("estimator")))


def environment_table() -> str:
    """A row for each built-in environment."""
    heads = ("id", "what", "version", "truth", "parameters", "reference")
    return _markdown(heads, map(_environment_row, _built_in("environment")))


def module_table(package: Path) -> str:
    """A row for each module and folder of a package, with the first line of its docstring."""
    rows = []
    for path in sorted(package.iterdir()):
        source = path / "__init__.py" if path.is_dir() else path
        if source.suffix != ".py" or not source.is_file() or path.name.startswith("__"):
            continue
        told = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or ""
        rows.append((f"`{path.name}{'/' * path.is_dir()}`", told.split("\n")[0]))
    return _markdown(("module", "what"), rows)


def with_table(text: str, table: str) -> str:
    """The text with the table between its two marks."""
    before, _, rest = text.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}\n{table}\n{_END}{after}"


def _built_in(kind: Kind) -> list[Plugin]:
    ours = [p for p in registry().plugins(kind) if p.origin.startswith("ope-bench ")]
    # Bridges to other packages come last.
    return sorted(ours, key=lambda plugin: ("/" in plugin.id, plugin.id))


def _estimator_row(plugin: Plugin) -> Sequence[str]:
    cls = plugin.cls
    estimator = cls()
    # What a peer answers depends on the version installed, if any.
    foreign = "obp.ope" in estimator.requires
    return (
        f"`{plugin.id}`",
        plugin.summary,
        f"`{formula_of(cls).replace('`', '').rstrip(',')}`",
        ", ".join(word.replace("_", " ") for word in estimator.access.words()),
        *("–" if foreign else _without_support(cls, world) for world in UNSUPPORTED),
        _sentence(cls, "Fails when"),
        reference_of(cls) or "–",
    )


def _without_support(cls: type, world: str) -> str:
    try:
        given = Examined(cls()).fresh(world)
    except NotApplicable:
        return "unavailable"
    return "refuses" if given.estimate is None else "answers"


def _environment_row(plugin: Plugin) -> Sequence[str]:
    cls = plugin.cls
    truth = re.search(r"^Truth\n-+\n(.+?)(?:\n\n|\Z)", _doc(cls), re.DOTALL | re.MULTILINE)
    names = [f"`{name}`" for name in inspect.signature(cls).parameters]
    return (
        f"`{plugin.id}`",
        plugin.summary,
        str(getattr(cls, "version", 1)),
        _first_sentence(truth[1]) if truth else "–",
        ", ".join(names),
        reference_of(cls) or "–",
    )


def _doc(cls: type) -> str:
    return inspect.cleandoc(cls.__doc__ or "")


def _sentence(cls: type, heading: str) -> str:
    found = re.search(rf"{heading}:?\s+(.+?)(?:\n\n|\Z)", _doc(cls), re.DOTALL)
    return _first_sentence(found[1]) if found else "–"


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=[.])\s", " ".join(text.replace("``", "`").split()))[0]


def _markdown(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    # A bar would end the cell, in code spans too.
    safe = ([cell.replace("|", r"\|") for cell in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in safe)


READMES: dict[str, Callable[[Path], str]] = {
    "estimators/README.md": lambda root: estimator_table(),
    "environments/README.md": lambda root: environment_table(),
    "bench/README.md": lambda root: module_table(root / "bench" / "ope_bench"),
}
"""README in a checkout, and what makes its table from the checkout's folder."""


def _write(root: Path) -> None:
    # On a busy machine threads that wait for each other cost minutes.
    with pinned(1):
        for name, table in READMES.items():
            path = root / name
            text = with_table(path.read_text(encoding="utf-8"), table(root))
            path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    _write(Path(sys.argv[1]))
