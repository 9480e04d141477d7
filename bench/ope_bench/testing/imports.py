"""Check that a plugin declares the packages that it imports."""

from __future__ import annotations

import sys
from pathlib import Path

from ope_bench.plugins.imported_packages import imported_packages
from ope_bench.plugins.requirements import CORE, pip_line
from ope_bench.testing.checks import NotApplicable, require
from ope_bench.testing.constructors import Subject

__all__ = ["check_imported_packages_are_declared"]

_ALWAYS = {*CORE, "annotated_types", "typing_extensions", "ope_bench"}
"""Packages that are there wherever ope-bench is."""


def check_imported_packages_are_declared(subject: Subject) -> None:
    """Packages that the class's module imports must be in `requires`, or be those of ope-bench.

    Without that, a missing package is an error of each trial instead of "unavailable" with the
    line that installs it, and the time of the import counts as the time of fit.
    """
    module = sys.modules.get(subject.cls.__module__)
    file = getattr(module, "__file__", None)
    if file is None or not file.endswith(".py"):
        msg = "the source of the class's module is not known"
        raise NotApplicable(msg)
    path = Path(file)
    if path.name.startswith("test_"):
        msg = "the class is part of a test"
        raise NotApplicable(msg)
    own = subject.cls.__module__.partition(".")[0]
    declared = {name.partition(".")[0] for name in subject.make().requires}
    unknown = sorted(
        name
        for name in imported_packages(path.read_text(encoding="utf-8"), subject.cls.__name__)
        if name not in sys.stdlib_module_names
        and name not in _ALWAYS | declared | {own}
        and not _is_beside(path, name)
    )
    lines = "; ".join(dict.fromkeys(map(pip_line, unknown)))
    require(
        not unknown,
        f"{path.name} imports {', '.join(unknown)}, which `requires` does not list: write "
        f"requires = ({', '.join(repr(name) for name in unknown)},) in the class, so that without "
        f"it trials are unavailable and say: {lines}",
    )


def _is_beside(path: Path, name: str) -> bool:
    """Return whether a module of that name is in the folder of a file."""
    return (path.parent / f"{name}.py").is_file() or (path.parent / name).is_dir()
