"""ARFF, Weka's attribute-relation files, and KEEL's dialect of them.

`scipy.io.arff` reads no texts and does not say in which line a file is wrong.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from ope_bench.reader.delimited import TextRow
from ope_bench.reader.mistakes import DataFileError

_MISSING = ("?", "<null>")
_ATTRIBUTE = re.compile(r"@attribute\s+(?:'([^']*)'|\"([^\"]*)\"|([^\s{]+))", re.IGNORECASE)


def is_arff(first_line: str) -> bool:
    """Return whether a first line is that of an ARFF file: ``@relation``, or a comment.

    >>> is_arff("@RELATION iris"), is_arff("a,b")
    (True, False)
    """
    return first_line.lstrip().lower().startswith(("@relation", "%"))


def arff_rows(path: Path, stream: TextIO) -> Iterator[TextRow]:
    """Yield the attributes' names as a header, then the rows.

    Raises
    ------
    DataFileError : there is no ``@data``, a row is sparse, or a value is missing.
    """
    names: list[str] = []
    start = 0
    for number, line in enumerate(stream, start=1):
        start, text = number, line.strip()
        if text.lower() == "@data":
            break
        if match := _ATTRIBUTE.match(text):
            names.append(next(name for name in match.groups() if name is not None))
    else:
        raise DataFileError(path, "has no @data line", where=f"line {start:,}")
    yield start, names
    for at, line in enumerate(stream, start=start + 1):
        text = line.strip()
        if not text or text.startswith("%"):
            continue
        if text.startswith("{"):
            raise DataFileError(path, "sparse rows are not supported", where=f"line {at:,}")
        quote = "'" if "'" in text else '"'
        fields = next(csv.reader([text], quotechar=quote, skipinitialspace=True))
        fields = [field.strip() for field in fields]
        require_values(path, at, names, fields)
        yield at, fields


def require_values(path: Path, line: int, names: list[str], fields: list[str]) -> None:
    """Raise an error at a field that says that its value is missing."""
    for name, field in zip(names, fields, strict=False):
        if field.strip() in _MISSING:
            where = f"line {line:,}, column '{name}'"
            raise DataFileError(path, "the value is missing", where=where)
