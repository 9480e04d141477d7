"""The tables in the READMEs are those that the code makes."""

from pathlib import Path

import pytest

from ope_bench.execution.threads import pinned
from ope_bench.plugin_tables import READMES, with_table

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", READMES)
def test_the_table_is_current(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    with pinned(1):
        table = READMES[name](ROOT)
    told = f"{name} is out of date; run `python -m ope_bench.plugin_tables .`"
    assert text == with_table(text, table), told


def test_text_around_the_marks_is_kept():
    text = "before\n<!-- made by ope_bench.plugin_tables -->\nold\n<!-- end -->\nafter\n"
    made = with_table(text, "| new |")
    assert made == text.replace("old", "| new |")
    assert with_table(made, "| new |") == made
