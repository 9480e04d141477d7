"""`ope-bench new`."""

import json

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
        ("numpy", "Python already knows"),
        ("class", "Python already knows"),
        ("json", "Python already knows"),
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
