"""Generate the tables in the packages' READMEs from the code.

``python bench/docs/readme_tables.py FOLDER`` writes them into the READMEs of a checkout.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ope_bench import Log, advise
from ope_bench.cli.choose import questions
from ope_bench.contracts.view import Access
from ope_bench.logs.example import write_example
from ope_bench.plugins.registry import Kind, Plugin, registry
from ope_bench.report.tables import markdown_lines
from ope_bench.testing.checks import REFERENCE, NotApplicable, formula_of
from ope_bench.testing.estimator_checks import EstimatorUnderTest
from ope_bench.testing.problems import UNSUPPORTED
from ope_bench.trials.isolation import thread_limit

MAKER = "bench/docs/readme_tables.py"


SUPPORT_HEAD = "what happens under missing support"


def estimator_table() -> str:
    """Build a table of each kind of estimators; runs each on two problems without full support."""
    heads = ("id", "what", "formula", "needs", SUPPORT_HEAD, "fails when", "reference")
    kinds: dict[str, list[Plugin]] = {}
    for plugin in _built_in("estimator"):
        kinds.setdefault(plugin.cls.__module__.rpartition(".")[0], []).append(plugin)
    order = {name: place for place, name in enumerate(ESTIMATOR_ORDER)}
    packages = sorted(kinds, key=lambda name: order.get(name.split(".")[1], len(order)))
    return "\n\n".join(
        f"### {_kind(package)}\n\n{markdown_table(heads, map(_estimator_row, kinds[package]))}"
        for package in packages
    )


def _kind(package: str) -> str:
    """Return the first line of a package's docstring, as a heading."""
    doc = inspect.getdoc(import_module(package)) or package
    return doc.split("\n")[0].rstrip(".")


def environment_table() -> str:
    """Build the table of environments."""
    heads = ("id", "what", "version", "truth", "parameters", "reference")
    return markdown_table(heads, map(_environment_row, _built_in("environment")))


NEEDS = (
    ("propensities", Access.PROPENSITY),
    ("logging policy", Access.LOGGING_POLICY),
    ("target policy", Access.TARGET_POLICY),
    ("p(g|a)", Access.EMBEDDING_DISTRIBUTION),
    (
        "probabilities of lists",
        Access.PREFIX_PROPENSITY | Access.JOINT_PROPENSITY | Access.POSITION_MARGINALS,
    ),
    ("loggers", Access.STRATUM),
)
"""What an estimator may need beyond the two samples, as headings of `access_table`.

Of several kinds of probabilities of lists one counts.
"""


def access_table() -> str:
    """Build the table of estimators by what they need and by the package they are in."""
    groups = _by_access()
    heads = (*(name for name, _ in NEEDS), "kind", "estimators")
    order = sorted(groups, key=lambda group: (sum(group[0]), [not one for one in group[0]], group))
    rows = [
        (
            *("yes" if one else "" for one in needs),
            kind,
            ", ".join(f"`{name}`" for name in groups[needs, kind]),
        )
        for needs, kind in order
    ]
    return markdown_table(heads, rows)


def shop_answer() -> str:
    """Build the first lines of `ope-bench advise` on the invented shop."""
    with TemporaryDirectory() as folder:
        write_example(Path(folder))
        advice = advise(Log.read(Path(folder) / "shop.yaml"))
        truth = (Path(folder) / "truth.txt").read_text(encoding="utf-8").strip()
    answer = f"```text\n{textwrap.fill(advice.opening(), 80)}\n```"
    return f"{answer}\n\nThe invented truth, in `shop/truth.txt`, is {truth}."


def _by_access() -> dict[tuple[tuple[bool, ...], str], list[str]]:
    """Return ids of estimators by what they need and by the package they are in.

    Forms that are printed in a paper and adapters of other packages are left out.
    """
    groups: dict[tuple[tuple[bool, ...], str], list[str]] = {}
    for plugin in _built_in("estimator"):
        if "/" not in plugin.id and not plugin.id.endswith("-paper"):
            access = plugin.cls().access
            needs = tuple(
                bool(flag & access) if name == "probabilities of lists" else flag in access
                for name, flag in NEEDS
            )
            groups.setdefault((needs, _packages(plugin.cls)), []).append(plugin.id)
    return groups


def _packages(cls: type) -> str:
    """Return an estimator's packages below the first one, in words."""
    return ", ".join(cls.__module__.split(".")[1:-1]).replace("_", " ")


def package_table(package: Path, order: Sequence[str] = ()) -> str:
    """Build the table of a package's packages and modules, with their docstrings' first lines.

    Parameters
    ----------
    package : the folder.
    order : the first packages; others follow by name.
    """
    packages = [path.parent for path in package.rglob("__init__.py") if path.parent != package]
    names = sorted(path.relative_to(package).parts for path in packages)
    places = {name: place for place, name in enumerate(order)}
    names.sort(key=lambda parts: places.get(parts[0], len(places)))
    rows = [
        (f"`{'/'.join(parts)}/`", _first_line(package.joinpath(*parts, "__init__.py")))
        for parts in names
    ]
    modules = sorted(path for path in package.glob("*.py") if path.stem != "__init__")
    rows += [(f"`{path.name}`", _first_line(path)) for path in modules]
    return markdown_table(("package", "what"), rows)


def _first_line(source: Path) -> str:
    text = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or ""
    return text.split("\n")[0].replace("``", "`")


def with_table(text: str, table: str, maker: str = MAKER) -> str:
    """Replace the text between the mark that names ``maker`` and the next end mark."""
    begin, end = f"<!-- made by {maker} -->", "<!-- end -->"
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n{table}\n{end}{after}"


def _built_in(kind: Kind) -> list[Plugin]:
    ours = [p for p in registry().plugins(kind) if p.origin.startswith("ope-bench ")]
    # Adapters of other packages come last.
    return sorted(ours, key=lambda plugin: ("/" in plugin.id, plugin.id))


def _estimator_row(plugin: Plugin) -> Sequence[str]:
    cls = plugin.cls
    estimator = cls()
    # Results of other packages depend on the installed version, if any.
    foreign = "obp.ope" in estimator.requires
    return (
        f"`{plugin.id}`",
        plugin.summary,
        f"`{formula_of(cls).replace('`', '').rstrip(',')}`",
        ", ".join(word.replace("_", " ") for word in estimator.access.words()),
        "–" if foreign else "; ".join(f"{c}: {_without_support(cls, c)}" for c in UNSUPPORTED),
        _sentence(cls, "Fails when"),
        reference_of(cls) or "–",
    )


FEWER = {"cross_fit": 2, "flow_params": {"epochs": 5}}
"""Folds and epochs, of which two and five do what five and two hundred do."""


def quick(cls: type) -> Any:
    """Return a plugin that repeats itself less; folds that are off by default stay off."""
    found = inspect.signature(cls).parameters
    return cls(
        **{
            name: value
            for name, value in FEWER.items()
            if name in found and (name != "cross_fit" or found[name].default > value)
        }
    )


def _without_support(cls: type, case: str) -> str:
    try:
        result = EstimatorUnderTest(quick(cls)).fresh(case)
    except NotApplicable:
        return "unavailable"
    return "refuses" if result.estimate is None else "answers"


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


def reference_of(cls: type) -> str:
    """Return the first reference of the form "Title (Authors, year)", or the empty string.

    >>> class Mean:
    ...     '''The mean.
    ...
    ...     References
    ...     ----------
    ...     On means (Anon, 1900), equation 1.
    ...     '''
    >>> reference_of(Mean)
    'On means (Anon, 1900)'
    """
    text = inspect.cleandoc(cls.__doc__ or "")
    _, heading, section = text.partition("Reference")
    found = REFERENCE.search(section.lstrip("s:-\n ") if heading else text)
    if not found:
        return ""
    words = " ".join(found.group().split())
    if '"' in words:
        # A title in quotation marks, anywhere in the line.
        return words[words.index('"') :].replace('"', "")
    # Without a heading, the sentence before the title must be removed.
    return words if heading else re.split(r"(?<=[.;:])\s", words)[-1]


def _doc(cls: type) -> str:
    return inspect.cleandoc(cls.__doc__ or "")


def _sentence(cls: type, heading: str) -> str:
    found = re.search(rf"{heading}:?\s+(.+?)(?:\n\n|\Z)", _doc(cls), re.DOTALL)
    return _first_sentence(found[1]) if found else "–"


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=[.])\s", " ".join(text.replace("``", "`").split()))[0]


def choose_tables() -> str:
    """Return the questions of `ope-bench choose`, a table each."""
    parts = []
    for number, question in enumerate(questions(), start=1):
        rows = [(row.case, row.use) for row in question.rows]
        parts.append(markdown_table((f"{number}. {question.title}", ""), rows))
    return "\n\n".join(parts)


def markdown_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Format a Markdown table."""
    # A bar ends the cell, even in code spans.
    head, *safe = ([cell.replace("|", r"\|") for cell in line] for line in (heads, *rows))
    return "\n".join(markdown_lines(head, safe, [False] * len(heads)))


@dataclass(frozen=True)
class ReadmeTable:
    """One table of one README.

    Parameters
    ----------
    path : the README in a checkout.
    mark : text of the mark before the table.
    make : builds the table for a checkout's folder.
    runs_plugins : whether building it runs plugins, which is slow.
    """

    path: str
    mark: str
    make: Callable[[Path], str]
    runs_plugins: bool = False


DATA_ORDER = (
    *("base", "contracts", "plugins", "reader", "suites", "trials", "execution", "store"),
    *("statistics", "boards", "report", "gate", "logs", "cli", "testing"),
)
"""The packages of the harness in the order in which data pass through them, then the tools."""

ESTIMATOR_ORDER = ("actions", "embedded", "density_ratio", "flows", "nuisance", "features")

READMES = (
    ReadmeTable(
        "bench/README.md",
        f"{MAKER} packages",
        lambda root: package_table(root / "bench" / "ope_bench", DATA_ORDER),
    ),
    ReadmeTable(
        "estimators/README.md",
        f"{MAKER} packages",
        lambda root: package_table(root / "estimators" / "ope_estimators", ESTIMATOR_ORDER),
    ),
    ReadmeTable(
        "environments/README.md",
        f"{MAKER} packages",
        lambda root: package_table(root / "environments" / "ope_environments"),
    ),
    ReadmeTable("README.md", f"{MAKER} shop", lambda root: shop_answer(), runs_plugins=True),
    ReadmeTable("estimators/README.md", MAKER, lambda root: estimator_table(), runs_plugins=True),
    ReadmeTable("environments/README.md", MAKER, lambda root: environment_table()),
    ReadmeTable("bench/docs/choose.md", MAKER, lambda root: access_table()),
    ReadmeTable("bench/docs/choose.md", f"{MAKER} choose", lambda root: choose_tables()),
)


def _write(root: Path) -> None:
    # On a busy machine, threads that wait for each other cost minutes.
    with thread_limit(1):
        for table in READMES:
            path = root / table.path
            text = with_table(path.read_text(encoding="utf-8"), table.make(root), table.mark)
            path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    _write(Path(sys.argv[1]))
