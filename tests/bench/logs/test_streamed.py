"""Estimates from batches of rows are those of the same rows in memory."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from ope_bench import Access, LinearEstimator, LinearScore, Log, UsageError, estimate
from ope_bench.cli.app import invoke
from ope_bench.contracts.parameters import hints_of
from ope_bench.logs import streamed
from ope_bench.logs.log_data import LogSpec
from ope_bench.logs.targets import TargetPolicy
from ope_bench.plugins.registry import registry
from ope_estimators.actions.doubly_robust.dr_eb import ONE_UNIT
from support.paths import ROOT

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

N = 1000
ACTIONS = 5
SEPARATE = "regressor=ridge,action_features=separate"
FORMS = [
    "ipw",
    "ipws",
    "beta-ipw",
    "sg-ipw",
    "sg-ipw[normalize=true]",
    "sg-ipw[lambda_=0.01]",
    f"dm[{SEPARATE}]",
    f"dr[{SEPARATE}]",
    f"sndr[{SEPARATE}]",
    f"dr-os[{SEPARATE}]",
    f"dr-eb[{SEPARATE}]",
    "dm[regressor=ridge]",
    "dr[regressor=ridge,cross_fit=3,regressor_params={alpha: 10}]",
    "sndr[regressor=ridge,action_features=embedding]",
    "dr-os[regressor=ridge,lambda_=2]",
]


class Policy:
    """Prefers some actions by the context."""

    def __init__(self, tilt: float) -> None:
        self.tilt = tilt

    def __call__(self, context):
        age = np.asarray(context["age"])
        score = self.tilt * np.outer(age, np.linspace(-1, 1, ACTIONS))
        score += np.where(np.asarray(context["device"]) == "tv", 0.5, 0.0)[:, None] * [
            0,
            0,
            1,
            0,
            0,
        ]
        chance = np.exp(score)
        return chance / chance.sum(axis=1, keepdims=True)


def columns(n=N, units=False):
    rng = np.random.default_rng(3)
    age, spent = rng.normal(size=n), 100 + 3 * rng.normal(size=n)
    device = rng.choice(["phone", "tv", "web"], n)
    chance = Policy(0.3)({"age": age, "device": device})
    action = (rng.random((n, 1)) > chance.cumsum(axis=1)).sum(axis=1)
    reward = rng.normal(size=n) + 0.3 * action * age + (device == "tv") + 5
    return {
        "age": age,
        "spent": spent,
        "device": device,
        "item": np.array([f"i{one}" for one in "31524"])[action],
        "reward": reward,
        "p": chance[np.arange(n), action],
        "count": rng.integers(1, 4, n).astype(float),
        "user": np.array([f"u{(7 * one) % 10007:05d}" for one in np.arange(n) // 3]),
    }


ORDER = ["i3", "i1", "i5", "i2", "i4"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    at = tmp_path_factory.mktemp("rows")
    made = columns()
    for k, part in enumerate(np.array_split(np.arange(N), 3)):
        table = pa.table({name: values[part] for name, values in made.items()})
        pq.write_table(table, at / f"part-{k}.parquet", row_group_size=200)
    return at


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(streamed, "BATCH", 80)
    monkeypatch.setattr(streamed, "PART", 250)


def spec_of(table, tilts=(0.8,), **changes):
    return LogSpec(
        table=table,
        context=("age", "spent", "device"),
        action="item",
        reward="reward",
        propensity="p",
        targets={f"t{tilt}": TargetPolicy(policy=Policy(tilt)) for tilt in tilts},
        actions=tuple(ORDER),
        **changes,
    )


FIELDS = ["value", "standard_error", "low", "high", "lift", "lift_low", "lift_high"]
FIELDS += ["ess_fraction", "max_weight_share", "lift_relative"]


def same(one, other, tolerance=1e-12):
    assert (one is None) == (other is None)
    if one is not None:
        assert one == pytest.approx(other, rel=tolerance, abs=tolerance)


def compare_rows(first, second, tolerance):
    for one, other in zip(first, second, strict=True):
        assert one.status == other.status == "ok", (one.label, one.message, other.message)
        for name in FIELDS:
            try:
                same(getattr(one, name), getattr(other, name), tolerance)
            except AssertionError as exc:
                raise AssertionError((one.label, name, str(exc))) from exc


def compare(first, second, forms, tolerance=1e-12):
    compare_rows(first, second, tolerance)
    assert len(first.differences) == len(second.differences)
    for one, other in zip(
        sorted(first.differences, key=lambda d: d.label),
        sorted(second.differences, key=lambda d: d.label),
        strict=True,
    ):
        for name in ("difference", "low", "high"):
            same(getattr(one, name), getattr(other, name), tolerance)
    assert first.logging_average == pytest.approx(second.logging_average, rel=1e-14)
    for one, other in zip(first.targets, second.targets, strict=True):
        same(one.unsupported_mass, other.unsupported_mass)


@pytest.mark.parametrize(
    "changes",
    [{}, {"unit": "user"}, {"weight": "count"}, {"weight": "count", "unit": "user"}],
    ids=["rows", "units", "weights", "both"],
)
def test_passes_over_batches_give_the_numbers_of_memory(folder, changes):
    spec = spec_of(folder, (0.8, 0.5), **changes)
    made = streamed.estimate_stream(spec, FORMS, jobs=2)
    memory = estimate(Log.of(replace(spec, table=columns())), FORMS)
    compare(made, memory, FORMS)


@pytest.mark.parametrize(
    "changes",
    [{}, {"unit": "user"}, {"weight": "count"}, {"weight": "count", "unit": "user"}],
    ids=["rows", "units", "weights", "both"],
)
@pytest.mark.parametrize("silent", [False, True], ids=["noise", "none where it matters"])
def test_the_share_of_a_correction_is_that_of_memory(tmp_path, changes, silent):
    rows = columns()
    if silent:
        rows["reward"] = np.where(rows["item"] == "i4", 5.0, rows["reward"])
    pq.write_table(pa.table(rows), tmp_path / "rows.parquet", row_group_size=300)
    spec = spec_of(tmp_path / "rows.parquet", **changes)
    if silent:
        only = np.tile([0.0, 0, 0, 0, 1], (N, 1))
        policy = TargetPolicy(policy=lambda context: only[: len(context["age"])])
        spec = replace(spec, targets={"i4": policy})
    forms = [f"dr-eb[{SEPARATE}]", f"sndr[{SEPARATE}]"]
    made = streamed.estimate_stream(spec, forms)
    compare_rows(made, estimate(Log.of(replace(spec, table=rows)), forms), 1e-10)
    shrunk, whole = made
    assert shrunk.value != pytest.approx(whole.value, rel=1e-9)
    # Where weighted residuals have no spread, all residuals say what those of others may have.
    assert (shrunk.standard_error > whole.standard_error * (1 + 1e-6)) == silent


@pytest.mark.parametrize("weighted", [0, 1])
def test_without_two_units_of_weight_a_correction_has_no_share(tmp_path, weighted):
    rows = columns()
    rows["item"] = np.where(rows["item"] == "i4", "i3", rows["item"])
    rows["item"][:weighted] = "i4"
    pq.write_table(pa.table(rows), tmp_path / "rows.parquet", row_group_size=300)
    only = np.tile([0.0, 0, 0, 0, 1], (N, 1))
    policy = TargetPolicy(policy=lambda context: only[: len(context["age"])])
    spec = replace(spec_of(tmp_path / "rows.parquet"), targets={"i4": policy})
    (one,) = streamed.estimate_stream(spec, ["dr-eb[regressor=ridge]"])
    (other,) = estimate(Log.of(replace(spec, table=rows)), ["dr-eb[regressor=ridge]"])
    assert one.value == pytest.approx(other.value, rel=1e-10)
    assert one.standard_error is other.standard_error is None
    assert one.lift == pytest.approx(other.lift, rel=1e-9)
    assert ONE_UNIT in one.message == other.message


def test_pilot_rows_that_mislead_cost_another_pass(tmp_path, monkeypatch):
    """Pilot rows are the first of row groups, and here have the smallest weights."""
    monkeypatch.setattr(streamed, "PILOT", 400)
    rows = columns()
    order = np.lexsort((-rows["p"], np.arange(N) // 500))
    rows = {name: values[order] for name, values in rows.items()}
    pq.write_table(pa.table(rows), tmp_path / "rows.parquet", row_group_size=500)
    spec = spec_of(tmp_path / "rows.parquet")
    passes = []
    forms = ["sg-ipw", f"dr-os[{SEPARATE}]"]

    def counted(task, parts):
        passes.append(task)
        return map(task, parts)

    made = streamed.estimate_stream(spec, forms, map_parts=counted)
    memory = estimate(Log.of(replace(spec, table=rows)), forms)
    compare(made, memory, forms)
    # One to look at words, two in the best case.
    assert len(passes) > 3


def test_likelihood_intervals_are_those_of_memory(folder):
    forms = ["ipw", "ipws", "sg-ipw[normalize=true]", f"dr-os[{SEPARATE}]"]
    for changes in ({}, {"unit": "user"}, {"reward_range": (0.0, 12.0)}):
        spec = spec_of(folder, **changes)
        how = {"interval": "empirical-likelihood", "level": 0.9}
        made = streamed.estimate_stream(spec, forms, **how)
        memory = estimate(Log.of(replace(spec, table=columns())), forms, **how)
        compare(made, memory, forms, 1e-11)
        assert made["ipw"].interval == "empirical-likelihood"
        assert made["dr-os"].interval is None


def test_guaranteed_intervals_are_those_of_memory(folder):
    forms = ["ipw", "ipws", f"dr[{SEPARATE}]"]
    for changes in ({}, {"unit": "user"}, {"unit": "user", "largest_unit": 10_000}):
        spec = spec_of(folder, (0.8, 0.5), reward_range=(0.0, 12.0), **changes)
        made = streamed.estimate_stream(spec, forms, interval="guaranteed")
        memory = estimate(Log.of(replace(spec, table=columns())), forms, interval="guaranteed")
        for one, other in zip(made, memory, strict=True):
            if one.estimator == "dr" or changes:
                assert one.interval is None
                if one.estimator != "dr":
                    assert "largest_unit" in one.message
                    assert (other.interval == "guaranteed") == ("largest_unit" in changes)
                    assert one.value == pytest.approx(other.value, rel=1e-12)
            else:
                assert one.interval == "guaranteed"
                assert (one.low, one.high) == pytest.approx((other.low, other.high), rel=1e-8)


RIDGE = {"regressor": "ridge"}
RULES = [
    "ipw[clip=3]",
    "ipw[clip=root-n]",
    "ipws[clip=mse]",
    "ipw[clip=slope]",
    "sg-ipw[lambda_=mse]",
    "sg-ipw[lambda_=slope,normalize=true]",
    "es-ipw[alpha=mse,form=ratio]",
    "dr-os[regressor=ridge,lambda_=slope]",
    "dr-ps[regressor=ridge,clip=mse]",
    "dr-ps[regressor=ridge,clip=mse,ladder=[4,2,1]]",
    "dr[regressor=ridge,clip=2]",
]


@pytest.mark.parametrize("changes", [{}, {"weight": "count"}], ids=["rows", "weights"])
def test_every_estimator_that_runs_in_batches_gives_its_numbers_of_memory(folder, changes):
    """Also those that nobody thought of: what depends on other rows must not pass for terms."""
    forms = list(RULES)
    for plugin in registry().plugins("estimator"):
        names = {one for one in RIDGE if one in hints_of(plugin.cls)}
        form = f"{plugin.id}[regressor=ridge]" if names else plugin.id
        if issubclass(plugin.cls, LinearEstimator):
            forms.append(form)
    spec = spec_of(folder, **changes)
    made = streamed.estimate_stream(spec, forms)
    able = [form for form, row in zip(forms, made, strict=True) if row.status == "ok"]
    memory = estimate(Log.of(replace(spec, table=columns())), able)
    compare_rows([one for one in made if one.status == "ok"], memory, 1e-10)
    assert len(able) >= len(RULES) + 12


class Terms(LinearEstimator):
    """Weights cut at two, on rewards less three: what an author of a plugin writes."""

    access = Access.PROPENSITY | Access.TARGET_POLICY
    normalized: bool = False

    def score(self, view):
        chance = view.target_policy.probability(view.context, view.action)
        return LinearScore(
            weight=np.minimum(chance / view.propensity, 2.0),
            outcome=view.reward - 3.0,
            baseline=np.full(view.n, 3.0),
            normalized=self.normalized,
        )


def test_a_plugin_that_says_its_terms_runs_in_batches_without_another_line(folder):
    own = [Terms(), Terms(normalized=True)]
    for changes in ({}, {"unit": "user"}):
        spec = spec_of(folder, (0.8, 0.5), **changes)
        made = streamed.estimate_stream(spec, own)
        compare(made, estimate(Log.of(replace(spec, table=columns())), own), own)
        assert made.differences


def test_a_policy_of_which_logged_probabilities_are_known(folder, tmp_path):
    made = columns()
    made["q"] = Policy(0.6)(made)[np.arange(N), np.searchsorted(sorted(ORDER), made["item"])]
    pq.write_table(pa.table(made), tmp_path / "rows.parquet", row_group_size=1300)
    spec = replace(spec_of(tmp_path / "rows.parquet"), actions=None)
    spec = replace(spec, targets={"new": TargetPolicy(probability="q")})
    result = streamed.estimate_stream(spec)
    assert {row.status for row in result} == {"ok", "unavailable"}
    assert [row.label for row in result if row.status == "unavailable"] == [
        "dm",
        "dr",
        "sndr",
        "dr-os",
    ]
    forms = ["ipw", "ipws", "beta-ipw"]
    memory = estimate(Log.of(spec), forms)
    for form in forms:
        assert result[form].value == pytest.approx(memory[form].value, rel=1e-12)
        assert result[form].lift_low == pytest.approx(memory[form].lift_low, rel=1e-9)


def test_a_limit_ends_the_passes(folder):
    for how, status in (({"timeout": 1e-9}, "timeout"), ({"memory": 1}, "memory")):
        result = streamed.estimate_stream(spec_of(folder), ["ipw"], **how)
        assert result["ipw"].status == status
        assert result.exit_code == 3
        assert status in repr(result)


def test_mistakes_are_named(folder, tmp_path):
    made = columns()
    apart = {**made, "user": np.roll(made["user"], 1)}
    apart["user"][0] = made["user"][5]
    pq.write_table(pa.table(apart), tmp_path / "apart.parquet")
    holes = {**made, "age": np.where(np.arange(N) == 777, np.nan, made["age"])}
    pq.write_table(pa.table(holes), tmp_path / "holes.parquet", row_group_size=500)
    wrong = {**made, "p": np.where(np.arange(N) == 777, 0.0, made["p"])}
    pq.write_table(pa.table(wrong), tmp_path / "wrong.parquet", row_group_size=500)
    for spec, said in (
        (spec_of(tmp_path / "apart.parquet", unit="user"), "sort the rows by `user`"),
        (spec_of(tmp_path / "holes.parquet"), "row 778, column 'age'"),
        (spec_of(tmp_path / "wrong.parquet"), "row 778, column 'p'"),
        (replace(spec_of(folder), propensity=None), "`propensity`"),
        (replace(spec_of(folder), reward="z"), "has no column 'z'"),
        (replace(spec_of(folder), targets={"t": TargetPolicy(action="item")}), "not `action`"),
        (spec_of(tmp_path / "d.csv"), "no parquet file"),
    ):
        with pytest.raises(UsageError, match=said):
            streamed.estimate_stream(spec, ["ipw"])
    others = {
        "edr": "not computed from batches",
        "dr-eb[regressor=ridge,toward=tmle]": "toward=tmle needs all rows",
        "dr": "models are regressor=ridge",
        "ix-ipw[gamma=mse]": "this rule needs all rows",
        "ipw[clip=ocv]": "clip=ocv needs all rows",
        "lse-ipw": "not computed from batches",
        "mrdr[regressor=ridge]": "not computed from batches",
        "ipw[propensity=estimated]": "models are",
        "ipws[hidden_cause=[1,2]]": "leave it out",
        "dr-os[regressor=ridge]": "",
    }
    result = streamed.estimate_stream(spec_of(folder), list(others))
    for row, said in zip(result, others.values(), strict=True):
        assert row.status == ("unavailable" if said else "ok")
        assert said in row.message
    # Where nobody used the weights, nothing is said of them.
    alone = streamed.estimate_stream(spec_of(folder), ["edr"])
    assert [row.status for row in alone] == ["unavailable"]
    assert not any("of all rows average" in note for note in alone.notes)


@pytest.mark.parametrize("kind", ["bootstrap", "disagreement", "anytime"])
def test_an_interval_that_batches_do_not_offer_says_what_to_do(folder, kind):
    with pytest.raises(UsageError, match=f"'{kind}' is not one of .*sample rows"):
        streamed.estimate_stream(spec_of(folder), ["ipw"], interval=kind)


def test_estimates_of_batches_have_a_page(folder, tmp_path):
    pytest.importorskip("altair")
    result = streamed.estimate_stream(spec_of(folder), ["ipw"])
    result.report(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert f"{N:,} decisions among" in text


PAGE = ROOT / "bench" / "docs" / "large-logs.md"
GENERATOR = ROOT / "results" / "performance" / "scripts" / "own_log_stream.py"


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """The log of the page, small."""
    at = tmp_path_factory.mktemp("page")
    command = [sys.executable, str(GENERATOR), str(at / "large"), "--rows", "3000"]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=100).stdout
    return at, said


def test_the_command_of_the_page(large, capsys, monkeypatch):
    at, said = large
    monkeypatch.chdir(at)
    page = PAGE.read_text(encoding="utf-8")
    (written,) = re.findall(r"^```yaml\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert re.sub(r" +#.*", "", written) == (at / "large" / "log.yaml").read_text()
    (command,) = re.findall(r"^```sh\nope-bench (.*?)\n```$", page, re.MULTILINE)
    assert invoke(shlex.split(command)) == 0
    shown = capsys.readouterr().out
    assert "dr-os" in shown
    assert "3,000 rows" in shown
    assert shown.splitlines()[3] in said


@pytest.mark.slow
def test_two_workers_of_dask_give_the_numbers_of_threads(large):
    pytest.importorskip("distributed")
    at, said = large
    page = PAGE.read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(# large_log.*?)^```$", page, re.DOTALL | re.MULTILINE)
    (at / "large_log.py").write_text(code)
    ended = subprocess.run(
        [sys.executable, "large_log.py"],
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
        cwd=at,
    )
    lines = said.splitlines()
    first = next(at for at, line in enumerate(lines) if line.startswith("ipw "))
    values = [line.split()[:6] for line in lines[first : first + 8]]
    for words in values:
        assert any(line.split()[:6] == words for line in ended.stdout.splitlines()), words


def test_a_folder_is_for_estimate_alone(large, capsys, monkeypatch):
    at, _ = large
    monkeypatch.chdir(at)
    for command in (["log", "check"], ["advise"]):
        assert invoke([*command, "large/log.yaml"]) == 2
        assert "`estimate` alone" in capsys.readouterr().err
    for words, said in (
        (["--interval", "bootstrap"], "empirical-likelihood"),
        (["--no-code"], "--no-code"),
        (["--sensitivity"], "--sensitivity"),
        (["--level", "2"], "between 0 and 1"),
    ):
        assert invoke(["estimate", "large/log.yaml", *words]) == 2
        assert said in capsys.readouterr().err
