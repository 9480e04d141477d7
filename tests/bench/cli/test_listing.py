from __future__ import annotations

import itertools
import re
import shlex
from typing import TYPE_CHECKING

import pytest

from ope_bench.cli import catalog
from ope_bench.plugins import registry as registries
from ope_bench.plugins.registry import Kind, Plugin

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.cli.conftest import Cli


def test_everything_installed_is_listed_in_80_columns(cli: Cli) -> None:
    said = cli("list")
    assert said.code == 0
    for word in ("saito-toy", "gaussian", "ipw-star", "epws-paper", "quick", "paper-actions"):
        assert f"  {word}" in said.out
    assert all(len(line) <= 80 for line in said.out.splitlines())


def test_ids_alone_fit_a_screen_and_estimators_stand_by_what_they_are_given(cli: Cli) -> None:
    lines = cli("list", "--ids").out.splitlines()
    assert len(lines) < 60
    assert all(len(line) <= 80 for line in lines)
    words = " ".join(lines).split()
    listed = cli("list", "--format", "json").json
    for kind in ("environments", "estimators", "suites"):
        assert all(row["id"] in words for row in listed[kind])
    following = lines[lines.index("estimators (samples)") + 1 :]
    group = itertools.takewhile(lambda line: line.startswith(" "), following)
    ids = {row["id"] for row in listed["estimators"] if row.get("access") == ["samples"]}
    assert set(" ".join(group).split()) == ids


def test_a_listing_is_one_json_document(cli: Cli) -> None:
    listed = cli("list", "estimators", "--format", "json").json
    assert set(listed) == {"schema", "estimators"}
    (ipw,) = [row for row in listed["estimators"] if row["id"] == "ipw"]
    assert ipw["origin"].startswith("ope-bench 0.")
    assert ipw["summary"]
    assert ipw["broken"] is None


@pytest.fixture
def odd_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken plugin and a namesake of a built-in."""
    real = registries.registry()

    class Odd(registries.Registry):
        def plugins(self, kind: registries.Kind) -> list[Plugin]:
            extra = [
                Plugin(
                    "estimator", name, reference=f"acme:{name}", origin="acme 1.2", target=target
                )
                for name, target in (
                    ("ipw", "ope_bench.nowhere:IPW"),
                    ("lost", "ope_bench.base.errors:Lost"),
                )
            ]
            return [*real.plugins(kind), *(extra if kind == "estimator" else [])]

    odd = Odd()
    monkeypatch.setattr(catalog, "registry", lambda: odd)


@pytest.mark.usefixtures("odd_plugins")
def test_broken_plugins_and_namesakes_are_told(cli: Cli) -> None:
    listed = cli("list", "estimators", "--format", "json").json["estimators"]
    broken = {row["reference"]: row["broken"] for row in listed if row["broken"]}
    assert "ModuleNotFoundError" in broken["acme:ipw"]
    assert "AttributeError" in broken["acme:lost"]
    ambiguous = {row["reference"] for row in listed if row["ambiguous"]}
    assert ambiguous == {"acme:ipw", "ope-bench:ipw"}
    text = cli("list", "estimators").out
    assert "2 estimators (acme 1.2)" in text
    assert "BROKEN: AttributeError" in text
    said = cli("show", "ipw")
    assert said.code == 2
    assert "is ambiguous: " in said.err


@pytest.mark.parametrize("name", ["quick", "ope-bench:ipw"])
def test_a_page_fits_80_columns(cli: Cli, name: str) -> None:
    said = cli("show", name)
    assert said.code == 0
    assert name.rpartition(":")[2] in said.out
    assert all(len(line) <= 80 for line in said.out.splitlines())


@pytest.mark.parametrize("kind", ["environment", "estimator"])
def test_pages_of_all_plugins_fit_80_columns_but_for_paths(kind: Kind) -> None:
    wide = {
        (plugin.id, line)
        for plugin in registries.registry().plugins(kind)
        for facts in catalog.describe_plugin(plugin.id)
        for line in catalog.page(facts, 80).splitlines()
        # Paths and code are copied.
        if len(line) > 80 and not re.match(r"source +/\S+$|>>> ", line)
    }
    assert wide == set()


def test_tables_of_a_page_are_wrapped_within_their_columns(cli: Cli) -> None:
    lines = cli("show", "damaged").out.splitlines()
    place = next(k for k, line in enumerate(lines) if line.startswith("retention "))
    start = lines[place].index("keeps")
    # What did not fit goes on below it.
    assert lines[place + 1][:start].isspace()
    assert lines[place + 1][start:].strip()


@pytest.mark.parametrize(("name", "parameter"), [("gaussian", "embedding_std"), ("edr", "compo")])
def test_what_follows_the_first_line_of_a_parameter_is_indented(
    cli: Cli, name: str, parameter: str
) -> None:
    lines = cli("show", name).out.splitlines()
    place = next(k for k, line in enumerate(lines) if re.match(rf"{parameter}.* : .", line))
    assert re.match(r" {4}\S", lines[place + 1])


def test_a_page_tells_parameters_access_and_source(cli: Cli) -> None:
    shown = cli("show", "ipw", "--format", "json").json
    assert shown["kind"] == "estimator"
    clip = {"name": "clip", "type": "float > 0 | 'root-n' | 'mse' | 'slope' | 'ocv' | None"}
    assert clip | {"default": "None"} in shown["parameters"]
    assert shown["access"] == ["propensity", "target_policy"]
    assert shown["source"].endswith("ipw.py")
    shown = cli("show", "saito-toy", "--format", "json").json
    assert shown["version"] == 1
    assert shown["parameters"][-1]["name"] == "worlds"


def test_a_suite_tells_what_it_would_run(cli: Cli) -> None:
    shown = cli("show", "paper-failures", "--format", "json").json
    assert shown["trials"] == shown["cells"] * shown["replicates"]
    assert "saito-toy[n_actions=1000,n_samples=500]" in shown["environments"]


@pytest.mark.parametrize(
    "name", sorted(one.id for one in registries.registry().plugins("environment"))
)
def test_the_example_of_an_environment_can_be_pasted_into_a_shell(cli: Cli, name: str) -> None:
    said = cli("show", name).out.partition("  (suite)")[0]
    assert ">>>" not in said
    example = said[said.index("\nope-bench run --est ipws ") :].split("\n\n")[0]
    assert max(map(len, example.splitlines())) <= 80
    words = shlex.split(example.replace("\\\n", ""))
    assert words[:3] == ["ope-bench", "run", "--est"]
    told = cli(*words[1:], "--dry-run", "--format", "json").json
    assert told["planned"] > 0


def test_the_legend_comes_before_all_that_is_listed(cli: Cli) -> None:
    said = cli("list").out
    assert said.startswith("In brackets")
    assert said.count("In brackets") == 1
    assert "In brackets" not in cli("list", "suites").out


def test_a_class_in_a_file_can_be_shown(cli: Cli, tiny: Callable[[str], str]) -> None:
    said = cli("show", tiny("Average"))
    assert said.code == 0
    assert "k : int >= 1, default 1" in said.out
    assert cli("show", tiny("Coins"), "--format", "json").json["version"] == 3


def test_show_yaml_prints_a_suite_that_runs(cli, tmp_path):
    said = cli("show", "quick", "--yaml")
    assert said.code == 0
    (tmp_path / "mine.yaml").write_text(said.out, encoding="utf-8")
    told = cli("run", "mine.yaml", "--dry-run", "--format", "json").json
    assert told["planned"] == cli("run", "quick", "--dry-run", "--format", "json").json["planned"]
    assert cli("show", "ipw", "--yaml").code == 2


def test_show_tells_a_suites_file_and_every_varying_parameter(cli):
    said = cli("show", "paper-actions")
    assert "paper-actions.yaml" in "".join(said.out.split())
    # 100 is the default.
    for n in (10, 50, 100, 200, 500):
        assert f"saito-toy[n_actions={n}]" in said.out


def test_set_changes_a_planned_suite(cli):
    told = cli("run", "quick", "--set", "saito-toy.beta=-3", "--dry-run", "--format", "json").json
    cells = [cell["environment"] for cell in told["cells"]]
    assert len(set(cells)) == 3
    assert all("beta=-3" in cell for cell in cells)


def test_estimators_are_listed_by_kind_with_their_number_and_needs(cli):
    said = cli("list", "estimators")
    lines = said.out.splitlines()
    heading = next(line for line in lines if line.startswith("  Importance weighting of actions"))
    below = lines[lines.index(heading) + 1 :]
    members = below[: below.index("")]
    assert any(line.startswith("  ipw ") for line in members)
    assert not any(line.startswith("  dm ") for line in members)
    words = " ".join(said.out.split())
    assert "policy takes the action. [pT]" in words
    assert "IPWStar with weights that sum to one. ix-ipw" in words, "samples need no letter"
    assert "p propensity, L logging policy" in words
    rows = cli("list", "estimators", "--format", "json").json["estimators"]
    assert f"{len(rows)} estimators (" in said.out
    access = {row["id"]: row["access"] for row in rows}
    assert access["ipw"] == ["propensity", "target_policy"]


def test_a_page_has_what_it_refers_to(cli):
    said = cli("show", "epws")
    assert "epw:" in said.out.splitlines()
    assert "cross_fit : folds by row" in said.out
    assert set(cli("show", "epws", "--format", "json").json["as"]) == {"epw"}
    assert cli("show", "ipw", "--format", "json").json["as"] == {}


def test_help_is_a_command_too(cli):
    assert cli("help", "run").out == cli("run", "--help").out
    assert cli("help").out == cli("--help").out


def test_other_names_of_estimators_stand_in_lists_pages_and_messages(cli):
    listed = cli("list", "estimators", "--format", "json").json["estimators"]
    rows = {row["id"]: row for row in listed}
    expected = {"snips", "hajek", "SelfNormalizedInverseProbabilityWeighting"}
    assert expected <= {*rows["ipws"]["aliases"]}
    assert rows["sips"]["aliases"] == ["SlateStandardIPS"]
    assert "(also snips," in " ".join(cli("list", "estimators").out.split())
    said = cli("show", "snips")
    assert said.out.startswith("ipws ")
    assert "also      snips," in said.out
    assert "did you mean 'snips'" in cli("show", "snipsy").err


def test_a_run_of_an_alias_has_the_rows_of_the_estimator_and_says_so(cli, tmp_path):
    command = ("--env", "saito-toy", "--replicates", "1", "--jobs", "1", "--store", "s.sqlite")
    said = cli("run", "--est", "sn-ips", *command)
    assert said.code == 0
    assert said.err.count("sn-ips is named ipws here") == 1
    again = cli("run", "--est", "ipws", *command, "--format", "json").json
    assert (again["reused"], again["executed"]) == (1, 0)
