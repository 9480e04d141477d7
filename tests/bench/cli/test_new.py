"""`ope-bench new`."""

import errno
import json
import os
from pathlib import Path

import pytest

from ope_bench.cli.app import invoke


def test_it_writes_a_package_and_says_what_is_next(tmp_path, capsys):
    assert invoke(["new", "estimator", "my-ipw", "--into", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert f"pip install -e {tmp_path / 'my-ipw'} && ope-bench check my-ipw" in out
    assert (tmp_path / "my-ipw" / "src" / "my_ipw" / "estimator.py").is_file()


def test_json_names_everything(tmp_path, capsys):
    arguments = ["new", "environment", "my-world", "--into", str(tmp_path), "--format", "json"]
    assert invoke(arguments) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["class"] == "MyWorld"
    assert document["package"] == "my_world"
    assert f"{tmp_path}/my-world/pyproject.toml" in document["files"]


def test_it_refuses_to_overwrite(tmp_path, capsys):
    invoke(["new", "estimator", "my-ipw", "--into", str(tmp_path)])
    module = tmp_path / "my-ipw" / "src" / "my_ipw" / "estimator.py"
    module.write_text("my work")
    assert invoke(["new", "estimator", "my-ipw", "--into", str(tmp_path)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert module.read_text() == "my work"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("My_IPW", "small letters"),
        ("-x", ""),
        ("my--ipw", "small letters"),
        ("9lives", "beginning with a letter"),
        ("ipw", "the name of a plugin of ope-bench"),
        ("saito-toy", "the name of a plugin of ope-bench"),
        ("numpy", "a keyword or an installed module"),
        ("class", "a keyword or an installed module"),
        ("json", "a keyword or an installed module"),
    ],
)
def test_a_name_that_cannot_work_is_refused_and_nothing_written(tmp_path, capsys, name, why):
    assert invoke(["new", "estimator", name, "--into", str(tmp_path)]) == 2
    assert why in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_a_usage_error(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert invoke(["new", "estimator", "my-ipw", "--into", str(tmp_path / "file")]) == 2
    assert "cannot write" in capsys.readouterr().err


MINE = '''"""Mine."""
import json
from typing import Annotated

import numpy as np
from annotated_types import Gt

from ope_bench import Access, Estimate, Estimator, evaluate, params


@params
class Switched(Estimator):
    """Importance weighting below a threshold."""

    access = Access.PROPENSITY | Access.TARGET_POLICY
    tau: Annotated[float, Gt(0)] = 10.0

    def estimate(self, view):
        w = view.target_policy.probability(view.context, view.action) / view.propensity
        return Estimate(float((np.where(w <= self.tau, w, 0.0) * view.reward).mean()))


if __name__ == "__main__":
    print(json.dumps(len(evaluate(Switched(), "saito-toy"))))
'''


def new_from(folder, capsys, text, *more):
    (folder / "my.py").write_text(text, encoding="utf-8")
    source = f"{folder / 'my.py'}:Switched"
    arguments = ["new", "estimator", "my-switch", "--from", source, "--into", str(folder), *more]
    code = invoke(arguments)
    return code, capsys.readouterr()


def test_a_package_of_a_class_has_its_parameters_in_tests_and_suite(tmp_path, capsys):
    code, said = new_from(tmp_path, capsys, MINE, "--format", "json")
    assert code == 0
    assert json.loads(said.out)["class"] == "Switched"
    root = tmp_path / "my-switch"
    module = (root / "src" / "my_switch" / "estimator.py").read_text(encoding="utf-8")
    assert module == MINE[: MINE.index("\n\nif __name__")].rstrip() + "\n"
    test = (root / "tests" / "test_my_switch.py").read_text(encoding="utf-8")
    assert "@estimator_checks(Switched(), Switched(tau=20.0))" in test
    compile(test, "test", "exec")
    suite = (root / "src" / "my_switch" / "suites" / "my-switch.yaml").read_text("utf-8")
    assert '- my-switch: {tau: 20.0, as: "Switched, tau=20.0"}' in suite
    assert 'dependencies = ["ope-bench"]' in (root / "pyproject.toml").read_text("utf-8")
    assert "@" not in suite
    assert "my_switch.estimator:Switched" in (root / "pyproject.toml").read_text("utf-8")


def test_packages_that_the_class_imports_are_dependencies(tmp_path, capsys):
    text = MINE.replace("        w = view", "        import torch, no_such\n        w = view")
    code, _ = new_from(tmp_path, capsys, text)
    assert code == 0
    project = (tmp_path / "my-switch" / "pyproject.toml").read_text("utf-8")
    assert 'dependencies = ["ope-bench", "no_such", "ope-bench[flow]"]' in project


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (MINE.replace("Switched", "Other"), "has no estimator 'Switched'"),
        (MINE.replace(" = 10.0", ""), "give 'tau' a default"),
        (MINE.replace("import json", "import only_here"), "it imports only_here, a file of"),
    ],
)
def test_a_class_that_cannot_be_copied_is_one_line(tmp_path, capsys, text, why):
    if "only_here" in text:  # folders of other tests are on the path, too
        (tmp_path / "only_here.py").write_text("")
    code, said = new_from(tmp_path, capsys, text)
    assert code == 2
    (line,) = said.err.splitlines()
    assert why in line
    assert not (tmp_path / "my-switch").exists()


def test_on_a_full_disk_no_half_package_is_left(tmp_path, capsys, monkeypatch):
    def full(path, text, **_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("pathlib.Path.write_text", full)
    assert invoke(["new", "estimator", "my-ipw", "--into", str(tmp_path)]) == 2
    assert "No space left" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_on_a_full_disk_no_half_example_is_left(tmp_path, capsys, monkeypatch):
    written = Path.write_text

    def full(path, text, **options):
        if "truth" in path.name:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return written(path, text, **options)

    monkeypatch.setattr("pathlib.Path.write_text", full)
    assert invoke(["log", "example", str(tmp_path / "shop")]) == 2
    assert "No space left" in capsys.readouterr().err
    assert list((tmp_path / "shop").iterdir()) == []
