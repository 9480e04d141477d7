"""The tables in the READMEs are those that the code makes."""

import pytest

import readme_tables
from ope_bench.plugins.registry import registry
from ope_bench.trials.isolation import thread_limit
from readme_tables import (
    DATA_ORDER,
    READMES,
    estimator_table,
    package_table,
    with_table,
)
from support.paths import README, ROOT

PACKAGE = ROOT / "bench" / "ope_bench"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "table",
    [
        pytest.param(
            table,
            id=f"{table.path}-{place}",
            marks=pytest.mark.slow if table.runs_plugins else (),
        )
        for place, table in enumerate(READMES)
    ],
)
def test_the_table_is_current(table):
    text = (ROOT / table.path).read_text(encoding="utf-8")
    with thread_limit(1):
        made = table.make(ROOT)
    advice = f"{table.path} is out of date; run `python bench/docs/readme_tables.py .`"
    assert text == with_table(text, made, table.mark), advice
    assert f"<!-- made by {table.mark} -->" in text


def test_the_readme_is_short_and_counts_what_is_there():
    text = README.read_text(encoding="utf-8")
    assert len(text.split()) <= 500
    own = [one for one in registry().plugins("estimator") if one.origin.startswith("ope-bench ")]
    assert f"Its {len(own)} estimators" in text


def test_text_around_the_marks_is_kept():
    text = "before\n<!-- made by bench/docs/readme_tables.py -->\nold\n<!-- end -->\nafter\n"
    made = with_table(text, "| new |")
    assert made == text.replace("old", "| new |")
    assert with_table(made, "| new |") == made


def test_packages_come_in_the_given_order_and_modules_last(tmp_path):
    for name in ("b", "a", "b/c", "first"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f'"""``{name}`` | it.\n\nMore.\n"""\n')
    (tmp_path / "data").mkdir()
    (tmp_path / "__init__.py").write_text("")
    (tmp_path / "module.py").write_text('"""A module."""\n')
    assert package_table(tmp_path, ["first", "b"]).splitlines()[2:] == [
        r"| `first/` | `first` \| it. |",
        r"| `b/` | `b` \| it. |",
        r"| `b/c/` | `b/c` \| it. |",
        r"| `a/` | `a` \| it. |",
        "| `module.py` | A module. |",
    ]


def test_estimators_have_a_table_for_each_kind(monkeypatch):
    monkeypatch.setattr(readme_tables, "_estimator_row", lambda plugin: (plugin.id,) * 7)
    lines = estimator_table().splitlines()
    ids = [line.split(" | ")[0][2:] for line in lines if line.startswith("| ")]
    heads, rules = ids.count("id"), ids.count("---")
    kinds = [line for line in lines if line.startswith("### ")]
    assert heads == rules == len(kinds) == len(set(kinds)) > 5
    assert len(ids) - heads - rules == len(readme_tables._built_in("estimator"))
    together = lines.index("| sndr | sndr | sndr | sndr | sndr | sndr | sndr |")
    assert lines.index("| dr | dr | dr | dr | dr | dr | dr |") < together
    above = [line for line in lines[:together] if line.startswith("### ")]
    assert above[-1] == "### Doubly robust estimators: a reward model and its weighted residuals"


def test_every_package_of_the_harness_has_its_place_in_the_order_of_the_data():
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert packages == set(DATA_ORDER)
