"""Pages of plugins: every built-in has one, and its formulas are set as mathematics."""

from __future__ import annotations

import inspect
import re
import unicodedata
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest

from board_pages import COMPARED
from committed import TRACKS, Board, lines_of
from field_charts import comparison_chart, estimator_chart
from mathml import FormulaError, mathml
from ope_bench.plugins.registry import Plugin
from ope_bench.testing.checks import formula_of
from plugin_pages import FOLDERS, built_in, page_name, plugin_pages, repository
from site_links import link_files
from support.paths import ROOT


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return plugin_pages()


def test_every_built_in_has_a_page_with_its_formula_and_its_parameters(
    pages: dict[str, str],
) -> None:
    for kind, folder in FOLDERS.items():
        for plugin in built_in(kind):
            text = pages[f"{folder}/{page_name(plugin.id)}.md"]
            assert text.startswith(f"# {plugin.id}\n"), plugin.id
            for name in inspect.signature(plugin.cls).parameters:
                assert f"| `{name}` |" in text, (plugin.id, name)
            if kind == "estimator":
                assert ("<math " in text) == bool(formula_of(plugin.cls)), plugin.id


def test_tables_of_docstrings_are_tables_of_pages(pages: dict[str, str]) -> None:
    assert [name for name, text in pages.items() if "===" in text] == []
    # A row of the docstring, with a line that goes on and with a cell that is empty.
    assert "| retention | keeps rows with the smallest reward with" in pages[DAMAGED]
    assert re.search(r"\| confounding \| hides .* differ from the logged ones", pages[DAMAGED])
    assert "| 1 |  | -5, 1 | 5, 1 | 50 |" in pages["environments/gaussian-pairs.md"]
    for head in ("| dial | `priors=1`, the default |", "| dial | `priors=2`, where it differs |"):
        assert f"{head}\n| --- | --- |\n| " in pages["environments/population.md"]
    assert "| any | 1 | >= 1.414 | infinite |" in pages["environments/gaussian.md"]


DAMAGED = "environments/damaged.md"


def test_an_estimator_of_the_leaderboard_shows_its_row_its_chart_and_its_cost(
    pages: dict[str, str],
) -> None:
    text = pages["estimators/ipw.md"]
    assert "| propensities and target policy | `ipws` |" in text
    assert text.count('class="c-dot"') > 100
    assert "an action never logged: answers" in text
    assert "<dt>also called</dt><dd><code>snips</code>," in pages["estimators/ipws.md"]
    # An adapter of another package has a class of the same name.
    assert "[`IPW`](ipw.md)" in pages["estimators/ipws.md"] + pages["estimators/iips.md"]
    assert re.search(r"\d [mµ]?s \|", text.partition("## Cost")[2])


def test_the_site_has_the_figures_of_the_leaderboards_page() -> None:
    page = (ROOT / "results" / "leaderboard.md").read_text(encoding="utf-8")
    for line in lines_of(TRACKS[1])[:12]:
        assert f"| {line.rank} to {line.rank_high} | `{line.estimator}` |" in page, line
        assert f" | {line.ratio:.2f} ({line.low:.2f} to {line.high:.2f}) |" in page, line


def test_the_error_over_the_best_is_a_geometric_mean_over_settings() -> None:
    scores = {"a": [1.0, 4.0], "b": [2.0, 1.0], "c": [np.nan, 0.1]}
    board = Board(
        "mine",
        "toy",
        ("small", "large"),
        {name: np.array(one) for name, one in scores.items()},
        {"a": frozenset({"propensity"}), "b": frozenset(), "c": frozenset()},
        {name: name for name in scores},
    )
    order = board.order()
    assert [name for name, _ in order] == ["b", "a"]
    assert [error for _, error in order] == pytest.approx([2**0.5, 2.0])
    assert board.order(frozenset()) == [("b", 1.0)]


def test_an_estimator_of_other_suites_shows_its_cost_there(pages: dict[str, str]) -> None:
    for name in ("cascade-dr", "blue", "kernel-dr"):
        assert re.search(r"## Cost.*: [\d.]+ [mµ]?s\.", pages[f"estimators/{name}.md"], re.DOTALL)
    assert "probabilities of each list" in pages["estimators/cascade-dr.md"].partition("</dl>")[0]


@pytest.mark.parametrize("plugin", built_in("estimator"), ids=lambda one: one.id)
def test_formulas_keep_every_letter(plugin: Plugin) -> None:
    first = formula_of(plugin.cls)
    _, _, rest = inspect.cleandoc(plugin.cls.__doc__ or "").partition(first)
    formula = (first + rest.partition("\n\n")[0]).replace("`", "")
    # MathML that is well-formed, and in which no letter of the formula is lost.
    tree = ElementTree.fromstring(f"<all>{mathml(formula)}</all>")
    letters = sorted(filter(str.isalpha, "".join(tree.itertext())))
    words = re.sub(r"\b(?:sum|prod)(?=\b|_)", "", unicodedata.normalize("NFD", formula))
    assert letters == sorted(filter(str.isalpha, words)), formula


@pytest.mark.parametrize("formula", ["V = (a", "V = a)", "V = #", "_i = V", "V = a_", "V = / b"])
def test_what_is_no_formula_is_refused(formula: str) -> None:
    with pytest.raises(FormulaError):
        mathml(formula)


@pytest.mark.parametrize(
    ("formula", "part"),
    [
        ("a b / c", "<mfrac><mrow><mi>a</mi>"),
        ("(1/n) sum_i w_i / m", "<munder>"),
        ("(a + b) / 2", "<mfrac><mrow><mi>a</mi><mo>+</mo><mi>b</mi></mrow>"),
        ("K((a - b) / h)", "<mfrac><mrow><mi>a</mi>"),
    ],
)
def test_fractions_take_products_and_drop_parentheses(formula: str, part: str) -> None:
    assert part in mathml(formula)


def test_a_sum_before_a_fraction_stays_before_it() -> None:
    text = mathml("V = (1/n) sum_i a_i / b")
    assert text.index("∑") < text.rindex("<mfrac>")


def test_links_to_what_is_no_page_lead_to_a_suite_or_to_the_repository() -> None:
    pages = {"results/README", "bench/docs/boards/paper-actions", "bench/docs/estimators/index"}
    text = (
        "[a](paper/actions/positivity.md) [b](CHANGES.md#x) [c](../estimators/README.md) [d](#y) "
        "[e](../tests/test_x.py) ![f](x.svg) [g](https://x.org/a.py) [h](README.md)"
    )
    made = link_files(text + '<a name="y"></a>', "results/README", pages)
    assert made == (
        "[a](../bench/docs/boards/paper-actions.md) "
        f"[b]({repository()}/results/CHANGES.md#x) "
        '[c](../bench/docs/estimators/index.md) <a href="#y">d</a> '
        f"[e]({repository()}/tests/test_x.py) ![f](x.svg) [g](https://x.org/a.py) [h](README.md)"
        '<a id="y"></a>'
    )


def test_the_figure_of_the_first_page_names_its_lines_in_their_colors() -> None:
    chart = comparison_chart(TRACKS[1], COMPARED)
    tree = ElementTree.fromstring(chart)
    names = [one for one in tree.iter("text") if one.get("class") == "c-name"]
    assert {one.text for one in names} == set(COMPARED)
    places = sorted(float(one.get("y", "nan")) for one in names)
    # Names stand apart, and each line is as long as there are groups of overlap.
    assert min(high - low for low, high in pairwise(places)) >= 14
    lines = [one for one in tree.iter("path") if one.get("class") == "c-line"]
    assert {one.get("d", "").count("L") for one in lines} == {5}
    assert len({one.get("stroke") for one in lines}) == len(COMPARED)


def test_the_thick_line_is_the_mean_over_worlds() -> None:
    track = TRACKS[1]
    chart = ElementTree.fromstring(estimator_chart(track, track.reference))
    (line,) = [one for one in chart.iter("path") if one.get("class") == "c-own"]
    heights = {point.split()[1] for point in line.get("d", "")[1:].split("L")}
    (one,) = [one for one in chart.iter("path") if one.get("class") == "c-one"]
    # The reference over itself is 1 everywhere.
    assert heights == {re.sub(r"M\d+ ([\d.]+)H.*", r"\1", one.get("d", ""))}
