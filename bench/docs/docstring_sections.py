"""Sphinx extension: the sections of this project's docstrings as fields and headings.

A docstring lists parameters as ``name : meaning``; types stand in the signature. Indented
paragraphs are formulas, shown as they are written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.application import Sphinx

__all__ = ["setup", "short_types", "split_sections", "with_fields"]

FIELDS = {"Parameters": "param", "Attributes": "ivar", "Raises": "raises"}
"""Sections that are lists of names, and the field of reStructuredText for one name."""


SHORT_TYPES = {
    r"~?(?:numpy\.)?ndarray\[(?:tuple\[~?(?:typing\.)?Any, \.\.\.\]|~?(?:typing\.)?Any), "
    rf"~?(?:numpy\.)?dtype\[~?(?:numpy\.)?{kind}\]\]": short
    for kind, short in {
        "float64": "FloatArray",
        "int64": "IntArray",
        "bool": "BoolArray",
        r"(?:typing\.)?Any": "Array",
    }.items()
} | {
    r"~?(?:\w+\.)*_Buffer \| .*?_NestedSequence\[complex \| bytes \| str\]": "ArrayLike",
    r"<factory>": "...",
    r"~?(?:typing\.)?Annotated\[([\w.~]+), <[^>]*>\]": r"\1",
}
"""What signatures show of types, by the pattern of what Python has in its place."""


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("autodoc-process-docstring", _process)
    app.connect("autodoc-process-signature", _shorten)
    app.connect("doctree-resolved", _shorten_attributes)
    return {"parallel_read_safe": True}


def _process(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = with_fields(lines)


def _shorten(
    app: Sphinx,
    what: str,
    name: str,
    obj: Any,
    options: Any,
    args: str | None,
    returns: str | None,
) -> tuple[str | None, str | None]:
    return args and short_types(args), returns and short_types(returns)


def _shorten_attributes(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """Name the types of attributes and properties, of which autodoc tells no extension."""
    from docutils import nodes
    from sphinx.addnodes import desc_annotation

    for node in doctree.findall(desc_annotation):
        short = short_types(node.astext())
        if short != node.astext():
            node[:] = [nodes.Text(short)]


def short_types(signature: str) -> str:
    """Name the types of a signature as the code does, and leave out what is no code.

    >>> short_types("(w: ~numpy.ndarray[tuple[~typing.Any, ...], ~numpy.dtype[~numpy.int64]])")
    '(w: IntArray)'
    >>> short_types("(a: dict = <factory>, b: Annotated[str, <x.Y object at 0x1>] = 'c')")
    "(a: dict = ..., b: str = 'c')"
    """
    for pattern, short in SHORT_TYPES.items():
        signature = re.sub(pattern, short, signature)
    return signature


def with_fields(lines: list[str]) -> list[str]:
    """Return a docstring's lines in reStructuredText.

    >>> with_fields(["Cut.", "", "Parameters", "----------", "clip, floor : bounds", "  of w."])
    ['Cut.', '', ':param clip: bounds', '  of w.', ':param floor: bounds', '  of w.', '']
    >>> with_fields(["Mean of", "", "    w r", "", "over rows."])
    ['Mean of', '', '::', '', '    w r', '', 'over rows.']
    """
    made: list[str] = []
    for heading, body in split_sections(lines):
        if heading in FIELDS:
            made += [*_fields(FIELDS[heading], body), ""]
        else:
            made += [f".. rubric:: {heading}", ""] if heading else []
            made += _literal_formulas(body)
    return [_escape(line) for line in made]


def _escape(line: str) -> str:
    """Escape what reStructuredText would read as markup: bars, stars and final underscores.

    >>> print(_escape("share of |w_i| above z_ in ``a|b_``"))
    share of \\|w_i\\| above z\\_ in ``a|b_``
    """
    if line.startswith((" " * 4, "..", ">>>")):
        return line
    parts = re.split(r"(`+[^`]*`+)", line)
    parts[::2] = [re.sub(r"([|*]|(?<=\w)_(?!\w))", r"\\\1", part) for part in parts[::2]]
    return "".join(parts)


def split_sections(lines: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Split a docstring at underlined headings; the first section has none."""
    heading, body = "", list[str]()
    place = 0
    while place < len(lines):
        below = lines[place + 1] if place + 1 < len(lines) else ""
        if lines[place].strip() and re.fullmatch(r"-{3,}", below):
            yield heading, body
            heading, body = lines[place].strip(), []
            place += 2
        else:
            body.append(lines[place])
            place += 1
    yield heading, body


def _fields(field: str, body: list[str]) -> list[str]:
    made: list[str] = []
    names: list[str] = []
    texts: list[str] = []
    for line in [*body, "end"]:
        if line.startswith(" ") or not line.strip():
            texts.append(line)
            continue
        for name in names:
            made += [f":{field} {name}: {texts[0]}", *(text for text in texts[1:] if text.strip())]
        head, _, text = line.partition(" : ")
        names, texts = head.split(", "), [text]
    return made


def _literal_formulas(body: list[str]) -> list[str]:
    """Mark indented paragraphs that follow plain text as literal blocks."""
    made: list[str] = []
    plain = True
    for place, line in enumerate(body):
        indented = line.startswith("    ")
        before = next((one for one in reversed(body[:place]) if one.strip()), "")
        starts = indented and place > 0 and not body[place - 1].strip()
        if starts and plain and not before.startswith(("- ", "..", "*")):
            made += ["::", ""] if not before.endswith("::") else []
        made.append(line)
        if line.strip():
            plain = not line.startswith(" ")
    return made
