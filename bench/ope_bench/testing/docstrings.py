"""Checks of docstrings."""

from __future__ import annotations

import inspect
import re

from ope_bench.contracts.parameters.declaration import signature
from ope_bench.testing.checks import require
from ope_bench.testing.constructors import Subject

__all__ = [
    "REFERENCE",
    "check_docstring_describes_every_parameter",
    "check_docstring_has_formula_assumptions_and_reference",
    "check_docstring_starts_with_one_line",
    "formula_of",
    "reference_of",
]

REFERENCE = re.compile(r"[^()]*\([^()]*\b(?:19|20)\d\d[a-z]?\)")


def formula_of(cls: type) -> str:
    """Return the docstring's first indented line with an equals sign, or the empty string.

    >>> class Mean:
    ...     '''The mean.
    ...
    ...         V = mean r
    ...
    ...     Assumptions: none.
    ...     '''
    >>> formula_of(Mean)
    'V = mean r'
    """
    for line in inspect.cleandoc(cls.__doc__ or "").splitlines()[1:]:
        if line.startswith("    ") and " = " in line and ">>>" not in line and " : " not in line:
            return line.strip()
    return ""


def reference_of(cls: type) -> str:
    """Return the first reference of the form "Title (Authors, year)", or the empty string.

    >>> class Mean:
    ...     '''The mean.
    ...
    ...     References
    ...     ----------
    ...     On means (Anon, 1900), equation 1.
    ...     '''
    >>> reference_of(Mean)
    'On means (Anon, 1900)'
    """
    text = inspect.cleandoc(cls.__doc__ or "")
    _, heading, section = text.partition("Reference")
    found = REFERENCE.search(section.lstrip("s:-\n ") if heading else text)
    if not found:
        return ""
    words = " ".join(found.group().split())
    if '"' in words:
        # A title in quotation marks, anywhere in the line.
        return words[words.index('"') :].replace('"', "")
    # Without a heading, the sentence before the title must be removed.
    return words if heading else re.split(r"(?<=[.;:])\s", words)[-1]


def check_docstring_starts_with_one_line(subject: Subject) -> None:
    """The first line must be a complete sentence; `list` and `show` print it."""
    lines = inspect.cleandoc(subject.cls.__doc__ or "").splitlines()
    require(lines and lines[0].strip(), "the class has no docstring; say in one line what it is")
    require(
        lines[0].endswith(".") and (len(lines) == 1 or not lines[1].strip()),
        f"the docstring's first line is {lines[0]!r}; make it one sentence, then an empty line",
    )


def check_docstring_has_formula_assumptions_and_reference(subject: Subject) -> None:
    """The docstring must have a formula, assumptions, failure modes and the source paper."""
    text = inspect.cleandoc(subject.cls.__doc__ or "")
    missing = [
        what
        for what, there in (
            ("a formula (an indented line with ` = `)", formula_of(subject.cls)),
            ("`Assumptions:`", "assumptions" in text.lower()),
            ("`Fails when:`", "fails when" in text.lower()),
            ("a reference as `Title (Authors, year)`", REFERENCE.search(text)),
        )
        if not there
    ]
    require(not missing, f"the docstring of {subject.cls.__name__} lacks {', '.join(missing)}")


def check_docstring_describes_every_parameter(subject: Subject) -> None:
    """Each parameter must be described, in the class or a base class."""
    texts = [cls.__doc__ or "" for cls in subject.cls.__mro__]
    missing = [
        name
        for name in signature(subject.cls)
        if not any(re.search(rf"\b{name}\b", text) for text in texts)
    ]
    require(
        not missing,
        f"the docstring does not mention {', '.join(missing)}; add `name : what it does` under "
        "Parameters",
    )
