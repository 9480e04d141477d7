"""The results of `evaluate`: shown, sliced, tabulated, plotted."""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from types import SimpleNamespace

import pytest

from ope_bench import Estimate, Estimator, UnavailableError, UsageError, evaluate
from ope_bench.api import FailureTable, Results, record_lines


class Odd(Estimator):
    """Fails on <some> data sets."""

    def __init__(self, clip: float = 1.0) -> None:
        self.clip = clip

    def estimate(self, view):
        if view.reward[0] > 0:
            view.reward[0] = 1.0
        return Estimate(float(view.reward.mean()))


@pytest.fixture(scope="module")
def results():
    worlds = "saito-toy[n_actions=[5,8],n_samples=60]"
    return evaluate(["ipw", "dm", Odd()], worlds, replicates=6)


@pytest.fixture(scope="module")
def single():
    return evaluate(["ipw", "dm"], "saito-toy[n_actions=5,n_samples=60]", replicates=6)


def test_shown_they_are_their_sweep_failures_and_findings(results):
    text = repr(results)
    assert "RMSE by n_actions" in text
    assert "copy before writing (test_results.py:" in text
    assert "6 replicates a setting" in text
    assert "\x1b" not in text


def test_the_repr_of_one_row_is_short(results):
    assert re.fullmatch(
        r"<ipw on saito-toy, replicate 0: -?[\d.]+ ± [\d.]+ \(ok\)>", repr(results[0])
    )
    failed = results.failures[0]
    assert (
        repr(failed)
        == f"<odd on saito-toy, replicate {failed.trial.replicate}: no estimate (error)>"
    )
    assert "copy before writing" in str(failed)


def test_parts_are_results_too(results):
    assert isinstance(results[:3], Results)
    assert isinstance(results[0:0] + results[:2], Results)
    assert len(results[:3]) == 3
    assert results[-1] is list(results)[-1]
    assert repr(results[:0]) == "no rows"
    assert isinstance(results.failures[:1], FailureTable)


def test_a_name_takes_the_rows_of_an_estimator(results):
    assert {row.trial.estimator.id for row in results["ipw"]} == {"ipw"}
    assert len(results["dm"]) == len(results["ipw"])
    with pytest.raises(KeyError, match="did you mean 'ipw'"):
        results["ipww"]


def test_failures_are_a_table_of_reasons(results):
    failures = results.failures
    assert 0 < len(failures) < len(results)
    assert {one.trial.estimator.id for one in failures} == {"odd"}
    text = repr(failures)
    assert text.count("copy before writing") == 1
    assert f"{len(failures)}" in text
    sound = Results(one for one in results if one.trial.estimator.id != "odd")
    assert repr(sound.failures) == "no failures"
    assert sound.failures._repr_html_() == "no failures"


class Tables(HTMLParser):
    """The rows of every table of a page; anything but table markup is an error."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag, attributes):
        assert tag in {"table", "thead", "tbody", "tr", "th", "td", "b", "p", "ul", "li"}
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data


def test_in_a_notebook_they_are_tables(results):
    page = Tables()
    page.feed(results._repr_html_())
    assert page.open == []
    assert page.rows[0] == ["RMSE by n_actions", "5", "8"]
    cells = {row[0]: row[1:] for row in page.rows[1:4]}
    assert set(cells) == {"ipw", "dm", "odd"}
    assert "!" in cells["odd"][0]
    assert any("copy before writing" in cell for row in page.rows for cell in row)
    assert "<li>" in results._repr_html_()


def test_labels_of_others_are_escaped():
    odd = Odd()
    hostile = evaluate(odd, "saito-toy[n_actions=5,n_samples=60]", replicates=2)
    changed = Results(hostile)
    spec = changed[0].trial.estimator
    object.__setattr__(spec, "label", "<script>x</script>")
    assert "<script>" not in changed._repr_html_()


def test_one_setting_is_its_board(single):
    page = Tables()
    page.feed(single._repr_html_())
    assert {"estimator", "RMSE", "access"} <= set(page.rows[0])


def test_rich_does_not_take_over_in_a_notebook(results, monkeypatch):
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    assert "RMSE by n_actions" in repr(results)


def test_a_data_frame_has_the_parameters_that_vary(results):
    found = record_lines(results)
    assert len(found) == len(results)
    assert {line["env_n_actions"] for line in found} == {5, 8}
    assert "env_n_samples" not in found[0], "it does not vary"
    assert {line["est_clip"] for line in found if line["estimator"] == "odd"} == {1.0}
    first = results[0]
    assert found[0]["estimate"] == first.estimate
    assert found[0]["status"] == "ok"
    assert found[0]["key"] == first.key
    assert found[0]["environment_params"]["n_samples"] == 60
    assert len({tuple(line) for line in found}) == 1, "the same columns in every line"


def test_without_pandas_there_is_no_data_frame(results, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UnavailableError, match="pip install pandas"):
        results.to_pandas()
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=list))
    assert results.to_pandas() == record_lines(results)


def marks(node):
    """The types of all marks of a chart."""
    if "layer" not in node:
        return {node["mark"]["type"]}
    return set().union(*map(marks, node["layer"]))


def test_several_settings_are_plotted_along_what_varies(results):
    spec = results.plot().to_dict()
    text = str(spec)
    assert "number of actions" in text
    assert "'method': 'ipw'" in text
    assert marks(spec) >= {"line", "point", "area"}


def test_one_setting_is_plotted_as_intervals(single):
    spec = single.plot().to_dict()
    assert "RMSE" in str(spec)
    assert "area" not in marks(spec)


def test_a_chart_is_drawn_without_the_network(results):
    drawn = results.plot("sweep", estimators="ipw")._repr_mimebundle_()["image/svg+xml"]
    assert drawn.startswith("<svg")
    assert "ipw" in drawn
    assert "dm" not in drawn
    with pytest.raises(UsageError, match="sweep"):
        results.plot("swep")


def test_nothing_to_plot_is_told():
    failed = evaluate(Odd(), "saito-toy[n_actions=5,n_samples=60]", replicates=6).failures
    with pytest.raises(UsageError, match="nothing to plot"):
        Results(failed).plot()


def test_a_line_has_its_error(results):
    lines = record_lines(results)
    assert {line["error"] is None for line in lines} == {True, False}
    for line in lines:
        if line["estimate"] is None:
            assert line["squared_error"] is None
        else:
            assert line["error"] == line["estimate"] - line["truth_expected"]
            assert line["squared_error"] == line["error"] ** 2


def test_results_are_a_page_and_latex_tables(single, tmp_path):
    assert single.to_latex().count("\\begin{tabular}") == 1
    assert "RMSE" in single.to_latex()
    pytest.importorskip("altair")
    single.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert single[0].trial.estimator.id in page
