"""The code digest changes with the code behind a trial, and with nothing else."""

import importlib
import json
import subprocess
import sys

import pytest

from ope_bench.plugins import registry as registry_module
from ope_bench.plugins import spec as code_digest_module
from support.paths import ROOT

SOURCES = {
    "__init__.py": "",
    "first.py": """
from ope_bench import Estimate, Estimator
from acme_digest import shared
import acme_third_party


class First(Estimator):
    def estimate(self, view):
        from acme_digest.inside import deep
        from . import sibling
        return Estimate(0.0)
""",
    "second.py": """
from ope_bench import Estimate, Estimator


class Second(Estimator):
    def estimate(self, view):
        return Estimate(1.0)
""",
    "shared.py": "from acme_digest.further import x\n",
    "further.py": "x = 1\n",
    "sibling.py": "y = 1\n",
    "inside/__init__.py": "",
    "inside/deep.py": "from ..further import x\n",
    "unrelated.py": "z = 1\n",
}

# What a new process finds, which has read no source yet.
SCRIPT = """
import json, sys
sys.path.insert(0, {path!r})
from ope_bench.plugins.spec import code_digest
from acme_digest.first import First
from acme_digest.second import Second
print(json.dumps([code_digest(First), code_digest(Second)]))
"""


def forget():
    """Read sources again, as a new process does."""
    for module in (code_digest_module, registry_module):
        for found in vars(module).values():
            if hasattr(found, "cache_clear"):
                found.cache_clear()


@pytest.fixture(autouse=True)
def modules():
    """Modules that a test imports go with it."""
    before = {*sys.modules}
    yield
    for name in {*sys.modules} - before:
        if name.partition(".")[0] in ("acme_digest", "acme_third_party", "acme_learner"):
            del sys.modules[name]
    forget()


@pytest.fixture
def package(tmp_path):
    for name, source in SOURCES.items():
        path = tmp_path / "acme_digest" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    (tmp_path / "acme_third_party.py").write_text("")
    info = tmp_path / "acme_third_party-1.0.dist-info"
    info.mkdir()
    (info / "RECORD").write_text("acme_third_party.py,sha256=x,1\n")
    return tmp_path


def digests():
    forget()
    modules = [importlib.import_module(f"acme_digest.{name}") for name in ("first", "second")]
    return tuple(
        code_digest_module.code_digest(one) for one in (modules[0].First, modules[1].Second)
    )


def test_exactly_the_digests_of_those_who_use_an_edited_file_change(package, monkeypatch):
    monkeypatch.syspath_prepend(package)
    before = digests()
    script = SCRIPT.format(path=str(package))
    told = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert tuple(json.loads(told.stdout)) == before
    for name, (first, second) in {
        "acme_digest/first.py": (True, False),
        "acme_digest/second.py": (False, True),
        # Through a module; by an import inside a function; relative; one level further.
        "acme_digest/shared.py": (True, False),
        "acme_digest/inside/deep.py": (True, False),
        "acme_digest/sibling.py": (True, False),
        "acme_digest/further.py": (True, False),
        "acme_digest/unrelated.py": (False, False),
        "acme_third_party.py": (False, False),
    }.items():
        path = package / name
        original = path.read_text()
        path.write_text(original + "\n# edited\n")
        after = digests()
        path.write_text(original)
        assert (after[0] != before[0], after[1] != before[1]) == (first, second), name
    assert digests() == before


FILE = """
from ope_bench import Estimate, Estimator
import beside


class Mine(Estimator):
    def estimate(self, view):
        from apart.deep import y
        return Estimate(beside.x)
"""


def test_a_class_in_a_file_answers_for_what_lies_beside_it(tmp_path, monkeypatch):
    sources = {
        "mine/my.py": FILE,
        "mine/beside.py": "import further, installed\nx = 1.0\n",
        "mine/further.py": "",
        "mine/apart/deep.py": "y = 1\n",
        "mine/unrelated.py": "",
        "mine/installed.py": "",
        "path/installed.py": "",
    }
    for name, source in sources.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(source)
    monkeypatch.syspath_prepend(tmp_path / "path")

    def digest():
        forget()
        with monkeypatch.context() as patch:
            for name in ("beside", "further", "installed"):
                patch.delitem(sys.modules, name, raising=False)
            found = registry_module.registry().find("estimator", f"{tmp_path}/mine/my.py:Mine")
            return code_digest_module.code_digest(found.cls)

    before = digest()
    for name, source in sources.items():
        (tmp_path / name).write_text(source + "# edited\n")
        # Of two modules of one name the one that is imported.
        behind = name not in ("mine/unrelated.py", "mine/installed.py")
        assert (digest() != before) == behind, name
        (tmp_path / name).write_text(source)


def test_function_level_imports_of_built_ins_are_followed():
    from ope_bench.plugins.registry import registry
    from ope_bench.plugins.spec import _closure

    module = registry().find("estimator", "dr").cls.__module__
    found = _closure(module)
    assert any(name.startswith("ope_estimators.nuisance.") for name in found)
    assert not any(name.partition(".")[0] in ("sklearn", "numpy", "torch") for name in found)


BENCH = ROOT / "bench" / "ope_bench"
HARNESS = [path for name in ("contracts", "trials") for path in (BENCH / name).glob("*.py")]
# The rest of logs runs trials, judges and shows.
LOGS = (
    *("policy_code", "loading", "log_data", "log_file"),
    *("policies", "source", "targets"),
)
HARNESS += [BENCH / "logs" / f"{name}.py" for name in LOGS]
HARNESS += [*(BENCH / "reader").glob("*.py"), BENCH / "statistics" / "value_intervals.py"]
HARNESS += [BENCH / "suites" / "nested.py"]


def test_every_file_of_the_harness_that_computes_numbers_is_hashed(monkeypatch):
    hashed = set()
    monkeypatch.setattr(code_digest_module, "_source_hash", hashed.add)
    code_digest_module._combined.__wrapped__(())
    assert len(HARNESS) >= 30
    for path in HARNESS:
        name = ".".join(path.relative_to(ROOT / "bench").with_suffix("").parts)
        assert code_digest_module._path(name) == path
        assert name in hashed


def test_digests_of_the_same_classes_agree_between_processes():
    code = (
        "from ope_bench.plugins.spec import code_digest\n"
        "from ope_bench.plugins.registry import registry\n"
        "print(code_digest(registry().find('estimator', 'ipw').cls))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    here = code_digest_module.code_digest(registry_module.registry().find("estimator", "ipw").cls)
    assert told.stdout.strip() == here


def test_an_edited_data_file_changes_the_answer_digest(tmp_path):
    from ope_bench.plugins.spec import result_digest
    from ope_environments.multiclass.environment import Multiclass
    from ope_estimators.actions.weighting.ipw import IPW

    table = tmp_path / "table.csv"
    table.write_text("a,label\n1,x\n", encoding="utf-8")
    world = Multiclass(dataset=str(table), label="label")
    before = result_digest(world, IPW())
    assert result_digest(world, IPW()) == before
    table.write_text("a,label\n2,x,\n", encoding="utf-8")
    assert result_digest(world, IPW()) != before
    assert result_digest(Multiclass(), IPW()) == result_digest(Multiclass(n_samples=9), IPW())


def test_the_digest_covers_a_learner_that_a_parameter_names(tmp_path, monkeypatch):
    """A class of a package, by its module; a function of a file, by the file."""
    from ope_environments.saito.toy import SaitoToy
    from ope_estimators.actions.direct.dm import DM

    source = "class Tree:\n    def fit(self, x, y): ...\n    def predict(self, x): ...\n"
    (tmp_path / "acme_learner.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    path = "acme_learner.Tree"
    seen = set()
    for version in range(2):
        (tmp_path / "acme_learner.py").write_text(source + f"# {version}\n")
        for cached in (code_digest_module._combined, code_digest_module._source_hash):
            cached.cache_clear()
        seen.add(code_digest_module.result_digest(SaitoToy(), DM(regressor=path)))
    file = tmp_path / "models.py"
    for version in range(2):
        file.write_text(f"def model(): return {version}\n" + "#" * version)
        seen.add(code_digest_module.result_digest(SaitoToy(), DM(regressor=f"{file}:model")))
    plain = code_digest_module.result_digest(SaitoToy(), DM())
    named = code_digest_module.result_digest(
        SaitoToy(), DM(regressor="sklearn.linear_model.Ridge")
    )
    assert len(seen) == 4
    assert plain == named
    assert plain not in seen
