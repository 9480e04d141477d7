"""Typical mistakes of plugins: what to do about an exception, and the line that raised it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from ope_bench.plugins.requirements import pip_line

__all__ = ["explain", "place_of"]

_HARNESS = str(Path(__file__).resolve().parents[1])

_CHAINED = re.compile(r"\n\n(?:During handling of|The above exception)[^\n]*\n\n")
_FRAME = re.compile(r'^  File "(?P<file>[^"\n]+)", line (?P<line>\d+), in (?P<name>.+)$', re.M)

_Cure = str | Callable[[re.Match[str]], str]


def _missing_module(match: re.Match[str]) -> str:
    module = match[1].partition(".")[0]
    return (
        f"list '{module}' in the attribute `requires`, so that a trial without it is unavailable; "
        f"to install it: {pip_line(module)}"
    )


_CURES: tuple[tuple[str, _Cure], ...] = (
    (
        r"read-only",
        "the view's arrays are shared with others: copy before writing",
    ),
    (
        r"which the estimator does not declare|read undeclared view\.",
        "add the flag to the class attribute `access`",
    ),
    (
        r"Cannot cast ufunc .* to dtype\('u?int",
        "an array of integers cannot hold the result: write x = x * y instead of x *= y",
    ),
    (
        r"fit\(\) (got an unexpected keyword argument|missing \d+ required|takes)",
        "write def fit(self, view, *, rng, device)",
    ),
    (
        r"estimate\(\) (got an unexpected keyword argument|missing \d+ required|takes)",
        "write def estimate(self, view)",
    ),
    (
        r"sample\(\) (got an unexpected keyword argument|missing \d+ required|takes)",
        "write def sample(self, *, world_rng, logged_rng, target_rng)",
    ),
    (r"No module named '([\w.]+)'", _missing_module),
    (
        r"^the estimate is (nan|-?inf)",
        "an estimate is a finite number; raise ope_bench.PositivityViolation where there is none",
    ),
    (
        r"^estimate returned (?!NoneType)\w+; expected",
        "return ope_bench.Estimate(value, ...)",
    ),
    (
        r"^estimate returned NoneType",
        "end it with return ope_bench.Estimate(value, ...)",
    ),
    (
        r"'NoneType' object cannot be interpreted as an integer",
        "view.n_actions is None where actions are continuous",
    ),
    (
        r"sample must return \(Problem, Truth\)",
        "end it with return problem, truth",
    ),
)
"""What to do, by what the message says."""


def explain(message: str, traceback: str | None = None, file: str | None = None) -> str:
    """Return an exception's message with what to do, and the plugin's line that raised it.

    Parameters
    ----------
    message : of the exception.
    traceback : its traceback as text, if there is one.
    file : the plugin's file, if known.

    >>> explain("assignment destination is read-only")
    "assignment destination is read-only; the view's arrays are shared with others: copy before \
writing"
    """
    text = " ".join(message.split())
    for pattern, cure in _CURES:
        match = re.search(pattern, text)
        if match:
            what = cure if isinstance(cure, str) else cure(match)
            text = f"{text}; {what}" if what not in text else text
            break
    place = place_of(traceback or "", file)
    return f"{text} ({place})" if place else text


def place_of(traceback: str, file: str | None = None) -> str:
    """Return where a plugin raised: ``my.py:29, in estimate``; empty if no line is its own.

    That is the innermost frame in the plugin's file, or else in the file of the first frame that
    is no part of the harness.

    Parameters
    ----------
    traceback : of the last exception, with those that caused it.
    file : the plugin's file, if known.
    """
    last = _CHAINED.split(traceback)[-1]
    frames = [one for one in _FRAME.finditer(last) if not one["file"].startswith(_HARNESS)]
    if not frames:
        return ""
    own = [one for one in frames if file is not None and one["file"] == file]
    inner = (own or [one for one in frames if one["file"] == frames[0]["file"]])[-1]
    return f"{Path(inner['file']).name}:{inner['line']}, in {inner['name']}"
