"""Tables of typed columns, from files and from data frames.

Every file and every frame becomes a `Table`. A column is integer, float, boolean, text, date-time
or a list of numbers of one length, each with missing values; what it is used for is decided by
those who ask it for numbers, names, times or vectors.
"""

from ope_bench.reader.column import Column, Kind
from ope_bench.reader.files import has_header, read_table
from ope_bench.reader.frames import series_of, table_of
from ope_bench.reader.mistakes import DataFileError
from ope_bench.reader.table import Table
from ope_bench.reader.text import TextForm, finite_number

__all__ = [
    "Column",
    "DataFileError",
    "Kind",
    "Table",
    "TextForm",
    "finite_number",
    "has_header",
    "read_table",
    "series_of",
    "table_of",
]
