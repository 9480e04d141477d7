"""The digest of a submission holds all code that runs, and refuses what nobody can review."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ope_bench.base.errors import UsageError
from ope_bench.gate.submission_digest import submission_digest
from ope_bench.plugins import registry as registry_module
from support.submissions import record, write_package


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Path]:
    """A folder on sys.path with one package."""
    sys.path.append(str(tmp_path))
    write_package(tmp_path, "acme-one", "honest")
    registry_module.registry.cache_clear()
    yield tmp_path
    sys.path.remove(str(tmp_path))
    for module in [one for one in sys.modules if one.startswith(("acme_", "helper"))]:
        del sys.modules[module]
    registry_module.registry.cache_clear()


def digest() -> str:
    sys.path_importer_cache.clear()
    return submission_digest(["acme-one"])


def put(site: Path, name: str, text: str = "", *, tops: tuple[str, ...] = ()) -> None:
    """Add a file to the package's RECORD."""
    path = site / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    with (site / "acme_one.dist-info" / "RECORD").open("a") as stream:
        stream.write(f"{name},sha256=x,1\n")


def requires(site: Path, name: str) -> None:
    with (site / "acme_one.dist-info" / "METADATA").open("a") as stream:
        stream.write(f"Requires-Dist: {name}\n")


CHANGES: dict[str, Callable[[Path], None]] = {
    "the module": lambda site: (site / "acme_one" / "__init__.py").write_text("#") and None,
    "data of the package": lambda site: put(site, "acme_one/table.json", "{}"),
    "a second module": lambda site: put(site, "helper.py", "TABLE = {}"),
    "a file among caches": lambda site: put(site, "acme_one/__pycache__/table", "{}"),
    "data beside": lambda site: put(site, "../share/acme.json", "{}"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_every_file_of_the_distribution_counts(change: str, site: Path) -> None:
    before = digest()
    assert digest() == before
    CHANGES[change](site)
    assert digest() != before


def test_what_the_installation_writes_does_not_count(site: Path) -> None:
    before = digest()
    (site / "acme_one.dist-info" / "INSTALLER").write_text("pip")
    with (site / "acme_one.dist-info" / "RECORD").open("a") as stream:
        stream.write("acme_one.dist-info/licenses/LICENSE.txt,sha256=x,1\n")
        stream.write("acme_one.dist-info/INSTALLER,,\n../../bin/acme,,\n")
        stream.write("acme_one/__pycache__/__init__.cpython-311.pyc,,\n")
    assert digest() == before


def test_what_it_requires_counts_and_what_ope_bench_requires_does_not(site: Path) -> None:
    requires(site, "numpy>=1.26")
    requires(site, "pytest; extra == 'test'")
    requires(site, "no-such-distribution-here")
    before = digest()
    write_package(site, "acme-helper", "honest")
    assert digest() == before
    requires(site, "acme-helper>=1 ; python_version >= '3.8'")
    after = digest()
    assert after != before
    with (site / "acme_helper" / "__init__.py").open("a") as stream:
        stream.write("# a table")
    assert digest() != after


@pytest.mark.parametrize("second", ["helper.py", "__editable__helper.py"])
def test_an_archive_that_says_that_it_is_editable_counts_whole(second: str, site: Path) -> None:
    url = {"url": f"file://{site}", "dir_info": {"editable": True}}
    (site / "acme_one.dist-info" / "direct_url.json").write_text(json.dumps(url))
    if second.startswith("_"):
        module = site / "__editable__one.py"
        module.write_text((site / "acme_one" / "__init__.py").read_text())
        (site / "acme_one.dist-info" / "RECORD").write_text(f"{module.name},,\n")
        points = site / "acme_one.dist-info" / "entry_points.txt"
        points.write_text("[ope_bench.estimators]\nacme-one = __editable__one:Entry\n")
        registry_module.registry.cache_clear()
    before = digest()
    put(site, second, "TABLE = {}")
    assert digest() != before


REFUSED: dict[str, tuple[Callable[[Path], None], str]] = {
    "a .pth": (lambda site: put(site, "acme.pth", "import acme_one"), "acme.pth runs"),
    "a compiled module": (lambda site: put(site, "acme_one/fast.so"), "fast.so is compiled"),
    "bytes without source": (lambda site: put(site, "acme_one/a.pyc"), "a.pyc is compiled"),
    "bytes among caches": (
        lambda site: put(site, "acme_one/__pycache__/__init__.cpython-311.pyc"),
        "is compiled",
    ),
    "a module of Python": (lambda site: put(site, "colorsys.py"), "module of Python"),
    "what Python imports at its start": (
        lambda site: put(site, "sitecustomize.py"),
        "module of Python",
    ),
    "code among facts": (
        lambda site: put(site, "acme_one.dist-info/table.py"),
        r"table\.py describes no package",
    ),
    "data among facts": (
        lambda site: put(site, "acme_one.dist-info/table.json"),
        r"table\.json describes no package",
    ),
    "facts of another": (
        lambda site: put(site, "ope_bench.egg-info/PKG-INFO"),
        "PKG-INFO describes no package",
    ),
    "facts of another archive": (
        lambda site: put(site, "ope_bench-9.dist-info/METADATA"),
        "METADATA describes no package",
    ),
    "a package of ours": (
        lambda site: put(site, "ope_estimators/ipw.py"),
        "ope_estimators/ipw.py has the name of",
    ),
    "the harness": (
        lambda site: put(site, "ope_bench/extra.py"),
        "ope_bench/extra.py has",
    ),
    "a package of others": (
        lambda site: put(site, "numpy/extra.py"),
        "numpy/extra.py has",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_nobody_can_review_or_replaces_others_is_refused(what: str, site: Path) -> None:
    change, words = REFUSED[what]
    change(site)
    with pytest.raises(UsageError, match=words):
        digest()


def test_a_dependency_is_refused_as_the_package_is(site: Path) -> None:
    write_package(site, "acme-helper", "honest")
    (site / "acme_helper" / "fast.so").write_text("")
    record(site, "acme_helper")
    digest()
    requires(site, "acme-helper")
    with pytest.raises(UsageError, match=r"acme-helper 1\.0: acme_helper/fast\.so is compiled"):
        digest()


@pytest.mark.parametrize("target", ["colorsys:Entry", "helper:Entry", "acme_one.absent:Entry"])
def test_the_module_is_a_file_of_the_distribution(target: str, site: Path) -> None:
    """Whatever the class says of its module."""
    points = site / "acme_one.dist-info" / "entry_points.txt"
    points.write_text(f"[ope_bench.estimators]\nacme-one = {target}\n")
    (site / "helper.py").write_text("from acme_one import Entry\n")
    registry_module.registry.cache_clear()
    with pytest.raises(UsageError, match="no file of its distribution"):
        digest()


def test_a_class_that_names_another_module_is_hashed_where_it_lies(site: Path) -> None:
    path = site / "acme_one" / "__init__.py"
    path.write_text(path.read_text() + '\nEntry.__module__ = "colorsys"\n')
    before = digest()
    path.write_text(path.read_text() + "# other code\n")
    assert digest() != before


def test_another_module_of_the_name_is_not_imported_instead(site: Path, tmp_path: Path) -> None:
    (tmp_path / "first" / "acme_one").mkdir(parents=True)
    (tmp_path / "first" / "acme_one" / "__init__.py").write_text("")
    sys.path.insert(0, str(tmp_path / "first"))
    try:
        with pytest.raises(UsageError, match="another is imported instead"):
            digest()
    finally:
        sys.path.remove(str(tmp_path / "first"))


@pytest.mark.parametrize("how", ["editable", "no list of files"])
def test_a_package_in_place_has_the_digest_of_its_archive(how: str, site: Path) -> None:
    put(site, "acme_two.py", "VALUE = 1\n")
    put(site, "acme_one/data.json", "{}")
    path = site / "acme_one" / "__init__.py"
    path.write_text(f"import acme_two\nimport numpy\n{path.read_text()}")
    before = digest()
    info = site / "acme_one.dist-info"
    (info / "RECORD").unlink()
    if how == "editable":
        (info / "RECORD").write_text("__editable__.acme.pth,sha256=x,1\n")
        url = {"url": f"file://{site}", "dir_info": {"editable": True}}
        (info / "direct_url.json").write_text(json.dumps(url))
    (site / "acme_one" / "__pycache__").mkdir(exist_ok=True)
    (site / "acme_one" / "__pycache__" / "__init__.cpython-311.pyc").write_text("")
    (site / "unrelated.py").write_text("VALUE = 2\n")
    assert digest() == before
    (site / "acme_two.py").write_text("VALUE = 3\n")
    assert digest() != before
