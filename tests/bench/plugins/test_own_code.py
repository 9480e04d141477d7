"""What counts as a plugin's own code: all that it imports and that no installed version names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ESTIMATOR = """
{imports}
from ope_bench import Access, Estimate, Estimator


class Lab(Estimator):
    access = Access(0)
    {more}

    def estimate(self, view):
        return Estimate(0.0)
"""

SCRIPT = """
import importlib, json, sys
from pathlib import Path
from ope_bench.plugins import spec
from ope_bench.plugins.registry import registry
from ope_environments.saito.toy import SaitoToy
from ope_estimators.actions.weighting.ipw import IPW
target, files = json.load(sys.stdin)
if ".py:" in target:
    cls = registry().find("estimator", target).cls
else:
    cls = getattr(importlib.import_module(target.partition(":")[0]), "Lab")

def digests():
    for found in vars(spec).values():
        if hasattr(found, "cache_clear"):
            found.cache_clear()
    one = cls()
    return spec.result_digest(SaitoToy(), one), spec.digests_of(one), spec.code_digest(IPW)

before, told = digests(), {}
for name in files:
    path = Path(name)
    text = path.read_text()
    path.write_text(text + ("1" if path.suffix != ".py" else "# edited"))
    after = digests()
    path.write_text(text)
    told[name] = [new != old for new, old in zip(after, before)]
assert digests() == before
print(json.dumps(told))
"""


class Lab:
    """Sources in a folder, and the digests that a new process computes of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path: list[Path] = []
        self.python = sys.executable
        self.target = "lab_ope:Lab"

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def estimator(self, name: str, imports: str, more: str = "") -> None:
        self.write(name, ESTIMATOR.format(imports=imports, more=more))

    def counts(self, *names: str) -> dict[str, bool]:
        """Return of each file whether an edit changes the digest; never that of a built-in."""
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, self.path))}
        done = subprocess.run(
            [self.python, "-B", "-c", SCRIPT],
            input=json.dumps([self.target, names]),
            capture_output=True,
            text=True,
            check=False,
            env=env,
            cwd=self.folder,
        )
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        # Workers of a cluster compare what `run` compares; built-ins are as they were.
        assert all(one[0] == one[1] and not one[2] for one in told.values()), told
        return {name: one[0] for name, one in told.items()}


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def metadata(lab: Lab, folder: str, name: str, *listed: str, source: str = "") -> None:
    """Write what pip leaves of a distribution: its list of files only if it installed them."""
    info = f"{folder}/{name}-1.0.dist-info"
    lab.write(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    if listed:
        lab.write(f"{info}/RECORD", "".join(f"{one},sha256=x,1\n" for one in listed))
    if source:
        lab.write(f"{info}/INSTALLER", "conda\n" if source == "conda" else "pip\n")
        kind = "dir_info" if source == "conda" else source
        lab.write(f"{info}/direct_url.json", json.dumps({"url": "file:///lab", kind: {}}))


def test_helpers_on_the_module_search_path_count_unless_a_version_names_them(lab: Lab) -> None:
    imports = "import lab_shared, json\nfrom lab_deep.inner import one"
    lab.estimator("ope/lab_ope.py", imports)
    lab.write("path/lab_shared.py", "from lab_further import x\nimport lab_broken\n")
    # A distribution of that name lies beside it, as in a checkout, but did not install it.
    metadata(lab, "path", "lab_shared")
    lab.write("path/lab_further.py", "x = 1\n")
    lab.write("path/lab_broken.py", "")
    lab.write("path/lab_deep/__init__.py", "")
    lab.write("path/lab_deep/inner/__init__.py", "")
    lab.write("path/lab_deep/inner/one.py", "TABLE = 'levels.csv'")
    lab.write("path/lab_deep/levels.csv", "1")
    lab.write("path/levels.csv", "1")
    lab.write("path/lab_deep/other.py", "")
    lab.path = [lab.folder / name for name in ("ope", "path")]
    expected = {
        "ope/lab_ope.py": True,
        "path/lab_shared.py": True,
        "path/lab_further.py": True,
        "path/lab_deep/__init__.py": True,
        "path/lab_deep/inner/one.py": True,
        # A data file may lie in a folder of its package, and nowhere above.
        "path/lab_deep/levels.csv": True,
        "path/levels.csv": False,
        # Modules count that are imported, not whole distributions.
        "path/lab_deep/other.py": False,
    }
    assert lab.counts(*expected) == expected


def test_what_was_installed_from_a_folder_or_a_repository_counts(lab: Lab) -> None:
    """Its code changes while its version stays; a version of an index or wheel has one code."""
    sources = {
        "lab_index": "",
        "lab_wheel": "archive_info",
        "lab_conda": "conda",
        "lab_folder": "dir_info",
        "lab_commit": "vcs_info",
        "lab_link": "dir_info",
    }
    imports = "import importlib, lab_index, lab_wheel, lab_folder, lab_commit, lab_link\n"
    lab.estimator("ope/lab_ope.py", imports + "importlib.import_module('lab_conda')")
    for name, source in sources.items():
        lab.write(f"target/{name}/__init__.py", "import lab_behind" * (name == "lab_folder"))
        # Of a link to a checkout, the list has the link alone.
        metadata(lab, "target", name, name + "/__init__.py" * (name != "lab_link"), source=source)
    lab.write("path/lab_behind.py", "")
    lab.path = [lab.folder / name for name in ("ope", "path", "target")]
    expected = {
        f"target/{name}/__init__.py": source in ("dir_info", "vcs_info")
        for name, source in sources.items()
    }
    expected["path/lab_behind.py"] = True
    assert lab.counts(*expected) == expected


def test_of_a_namespace_package_each_part_is_judged_by_itself(lab: Lab) -> None:
    lab.estimator("ope/lab_ope.py", "from lab_space import own\nimport lab_space.bought.deep")
    lab.write("own/lab_space/own.py", "")
    lab.write("target/lab_space/bought/__init__.py", "")
    lab.write("target/lab_space/bought/deep.py", "")
    listed = ("lab_space/bought/__init__.py", "lab_space/bought/deep.py")
    metadata(lab, "target", "lab_bought", *listed)
    lab.path = [lab.folder / name for name in ("ope", "own", "target")]
    expected = {"own/lab_space/own.py": True, "target/lab_space/bought/deep.py": False}
    assert lab.counts(*expected) == expected


def test_a_class_in_a_file_counts_what_it_imports_from_elsewhere_and_files_beside_it(
    lab: Lab,
) -> None:
    more = "data_files = (str(Path(__file__).parent / 'far' / 'table.csv'),)"
    imports = (
        "import beside, importlib\nfrom pathlib import Path\n"
        "importlib.import_module('lab_shared')\n"
        "THIRD = Path(__file__).parent / 'tables' / 'by_hand' / 'third.csv'\n"
        "CAP = Path(__file__).with_name('cap.json').read_text()"
    )
    lab.estimator("mine/my.py", imports, more)
    lab.write("mine/beside.py", "OPEN = open(__file__[:-9] + 'sub/second.txt').read()\n")
    lab.write("mine/sub/second.txt", "1")
    lab.write("mine/tables/by_hand/third.csv", "1")
    lab.write("mine/cap.json", "1")
    lab.write("mine/unnamed.json", "1")
    lab.write("mine/far/table.csv", "1")
    lab.write("path/lab_shared.py", "")
    lab.path, lab.target = [lab.folder / "path"], f"{lab.folder}/mine/my.py:Lab"
    expected = {
        "mine/beside.py": True,
        "path/lab_shared.py": True,
        "mine/cap.json": True,
        "mine/sub/second.txt": True,
        "mine/tables/by_hand/third.csv": True,
        "mine/far/table.csv": True,
        "mine/unnamed.json": False,
    }
    assert lab.counts(*expected) == expected


PROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "{name}"
version = "0.1.0"
[tool.setuptools]
packages = ["{package}"]
package-dir = {{{folder}}}
"""


def test_an_editable_installation_counts_by_its_path_and_by_its_import_hook(lab: Lab) -> None:
    """By pip, into an environment of its own: one project is a path, the other a finder."""
    pytest.importorskip("setuptools")
    for name, package, folder in (
        ("lab-ope", "lab_ope", '"" = "src"'),
        ("lab-path", "lab_path", '"" = "src"'),
        ("lab-hook", "lab_hook", '"lab_hook" = "code"'),
    ):
        text = PROJECT.format(name=name, package=package, folder=folder)
        lab.write(f"{name}/pyproject.toml", text)
    lab.estimator("lab-ope/src/lab_ope/__init__.py", "import lab_path\nfrom lab_hook import inner")
    lab.write("lab-path/src/lab_path/__init__.py", "")
    lab.write("lab-hook/code/__init__.py", "")
    lab.write("lab-hook/code/inner.py", "")
    home = lab.folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True)
    lab.python = str(home / "bin" / "python")
    (site,) = home.glob("lib/python*/site-packages")
    outer = sysconfig.get_path("purelib")
    (site / "outer.pth").write_text(f"import site; site.addsitedir({outer!r})\n")
    command = [sys.executable, "-m", "pip", "--python", str(home), "install", "--quiet"]
    command += ["--no-deps", "--no-build-isolation", "--no-index", "--no-compile"]
    projects = [word for name in ("ope", "path", "hook") for word in ("-e", f"lab-{name}")]
    subprocess.run([*command, *projects], check=True, cwd=lab.folder, capture_output=True)
    assert list(site.glob("__editable___lab_hook*finder.py"))
    assert not list(site.glob("__editable___lab_path*finder.py"))
    sources = ("lab-ope/src/lab_ope/__init__.py", "lab-path/src/lab_path/__init__.py")
    assert all(lab.counts(*sources, "lab-hook/code/inner.py").values())
