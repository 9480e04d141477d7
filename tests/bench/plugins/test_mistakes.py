"""What to do about an exception, and which line raised it."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest

from ope_bench.plugins.requirements import explain, place_of

PLUGIN = """
def outer():
    return inner()

def inner():
    raise ValueError("here")

def through(call):
    return call()

def chained():
    try:
        inner()
    except ValueError as exc:
        raise KeyError("there") from exc
"""


def raised(path: Path, call) -> str:
    names: dict = {}
    exec(compile(PLUGIN, str(path), "exec"), names)
    try:
        call(names)
    except Exception as exc:
        return "".join(traceback.format_exception(exc))
    raise AssertionError


def test_the_place_is_the_innermost_line_of_the_plugin(tmp_path):
    path = tmp_path / "mine.py"
    trace = raised(path, lambda names: names["outer"]())
    assert place_of(trace, str(path)) == "mine.py:6, in inner"


def test_lines_of_libraries_do_not_count(tmp_path):
    path = tmp_path / "mine.py"
    trace = raised(path, lambda names: names["through"](lambda: [].pop()))
    assert place_of(trace, str(path)) == "mine.py:9, in through"


def test_the_last_of_chained_exceptions_counts(tmp_path):
    path = tmp_path / "mine.py"
    trace = raised(path, lambda names: names["chained"]())
    assert place_of(trace, str(path)) == "mine.py:15, in chained"


def test_without_a_line_of_a_plugin_there_is_no_place():
    assert place_of("") == ""
    assert place_of("ValueError: told without a traceback") == ""


@pytest.mark.parametrize(
    ("message", "cure"),
    [
        ("assignment destination is read-only", "copy before writing"),
        (
            "a.b needs Access.X, which the estimator does not declare",
            "the class attribute `access`",
        ),
        (
            "M.fit() missing 1 required positional argument: 'x'",
            "def fit(self, view, *, rng, device)",
        ),
        ("M.estimate() takes 1 positional argument", "def estimate(self, view)"),
        ("M.sample() got an unexpected keyword argument 'rng'", "logged_rng, target_rng)"),
        ("No module named 'torch.nn'", 'pip install "ope-bench[flow]"'),
        ("the estimate is -inf", "raise ope_bench.PositivityViolation"),
        ("estimate returned NoneType; expected ope_bench.Estimate", "end it with return"),
    ],
)
def test_a_known_message_comes_with_what_to_do(message, cure):
    told = explain(message)
    assert told.startswith(f"{message}; ")
    assert cure in told


def test_an_unknown_message_is_one_line_as_it_is():
    assert explain("something\n  else") == "something else"


def test_what_to_do_is_said_once():
    once = explain("assignment destination is read-only")
    assert explain(once) == once
