from __future__ import annotations

import json
import re

import pytest

from ope_bench.cli.app import invoke

from .conftest import made


@pytest.fixture
def said(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPE_BENCH_STORE", raising=False)

    def run(*arguments):
        code = invoke(["report", *arguments])
        caught = capsys.readouterr()
        return code, caught.out, caught.err

    return run


def test_a_page_is_written_and_named(said, stored, tmp_path):
    stored([made()])
    code, out, err = said("-o", "r.html", "--store", "store.sqlite", "--format", "json")
    assert code == 0
    assert json.loads(out)["file"] == "r.html"
    assert "r.html" in err
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")


def test_a_missing_store_is_an_error_and_nothing_is_made(said, tmp_path):
    code, _, err = said("-o", "r.html")
    assert code == 2
    assert "ope-bench.sqlite" in err
    assert not list(tmp_path.iterdir())


def test_nothing_to_make_is_an_error(said):
    code, _, err = said()
    assert code == 2
    assert "-o FILE.html" in err


def test_a_file_that_cannot_be_written_is_named(said, stored, tmp_path):
    stored([made()])
    code, _, err = said("-o", "nowhere/r.html", "--store", "store.sqlite")
    assert code == 2
    assert "nowhere/r.html" in err


def test_an_unknown_suite_is_told_in_one_line_and_nothing_is_made(said, stored, tmp_path):
    stored([made()])
    code, out, err = said("-o", "r.html", "--store", "store.sqlite", "--suite", "adhok")
    assert code == 2
    assert out == ""
    assert err.count("\n") == 1
    assert "no run of suite 'adhok'" in err
    assert "did you mean 'adhoc'?" in err
    assert not (tmp_path / "r.html").exists()


def test_figures_that_are_left_out_are_told(said, stored, monkeypatch):
    monkeypatch.setattr("ope_bench.report.figures.MOST_SETTINGS", 0)
    stored([made()])
    code, out, err = said("--figures", "f", "--store", "store.sqlite", "--format", "json")
    assert code == 0
    assert "the first 0 of 1" in json.loads(out)["left_out"]
    assert "the first 0 of 1" in err


def test_an_unknown_run_is_an_error(said, stored):
    stored([made()])
    code, _, _ = said("-o", "r.html", "--store", "store.sqlite", "--run", "zzz")
    assert code == 2


def test_an_estimator_of_ones_own_stands_out_under_a_name_of_its_own(said, stored, tmp_path):
    names = ("ipw", "dm")
    stored([made(name, r, 0.1 * (-1) ** r, n=n) for n in (1, 9) for name in names for r in (0, 1)])
    sweep = ("--charts", "sweep", "--store", "store.sqlite", "--figures")
    assert said(*sweep, "f", "--highlight", "dm", "--label", "DirectMethod=Ours & co")[0] == 0
    assert said(*sweep, "g")[0] == 0
    (mine, plain) = (next((tmp_path / one).glob("sweep-rmse-*.svg")).read_text() for one in "fg")
    assert "Ours &amp; co" in mine
    assert ">dm<" not in mine
    # One line is black, wide and opaque; the other is pale. Without the option no line is.
    lines = re.findall(r'<path d="M[^>]*stroke-dasharray[^>]*>', mine)
    strong = [line for line in lines if re.search('stroke="#000000" stroke-width="2.2"', line)]
    assert len(strong) == 1
    assert any('opacity="0.45"' in line for line in lines if line not in strong)
    assert "#000000" not in plain
    assert 'opacity="0.45"' not in plain


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--highlight", "dmm"), "--highlight: no outcome of 'dmm' is in the store; did you mean"),
        (("--label", "dm"), "--label: write dm=TEXT"),
        (("--label", "dm=A", "--label", "ipw=A"), "'A' would name two estimators"),
    ],
)
def test_what_cannot_stand_out_is_one_line(said, stored, options, message):
    stored([made(name, r) for name in ("ipw", "dm") for r in (0, 1)])
    code, _, err = said("--figures", "f", "--store", "store.sqlite", *options)
    assert (code, err.count("\n")) == (2, 1)
    assert message in err


def test_names_in_figures_need_figures(said):
    code, _, err = said("-o", "r.html", "--label", "dm=A")
    assert code == 2
    assert "--label: it is about figures; add --figures FOLDER" in err
