"""Plugins by entry point, by distribution and by file; broken and ambiguous ones."""

import importlib
import subprocess
import sys
import tomllib
from importlib.metadata import distribution, entry_points

import pytest

from ope_bench.api import Results
from ope_bench.base.errors import ParameterError, PluginError, UsageError
from ope_bench.plugins.registry import ALIASES, GROUPS, Registry, class_id, registry
from ope_bench.plugins.spec import PluginSpec, resolve, spec_of
from ope_bench.trials.record import Trial, TrialRecord
from ope_bench.trials.status import Status
from support.paths import ROOT

MODULE = """
from ope_bench import Estimate, Estimator


class Mean(Estimator):
    \"\"\"The mean, as {who} has it.\"\"\"

    def __init__(self, shift: float = 0.0) -> None:
        self.shift = shift

    def estimate(self, view):
        return Estimate(float(view.reward.mean()) + self.shift)


not_a_class = 7


class NotOurs:
    pass
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Put a distribution on sys.path, as pip would leave it; gives a registry that sees it."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def make(name, points, source=None, version="1.2"):
        module = name.replace("-", "_")
        (tmp_path / f"{module}.py").write_text(source or MODULE.format(who=name))
        info = tmp_path / f"{module}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
        lines = [f"{point} = {module}{target}" for point, target in points.items()]
        (info / "entry_points.txt").write_text(
            "\n".join(["[ope_bench.estimators]", *lines]) + "\n"
        )
        importlib.invalidate_caches()
        return Registry()

    yield make
    for module in [name for name in sys.modules if name.startswith("acme_")]:
        del sys.modules[module]


def test_an_installed_plugin_is_found_by_id_and_by_distribution(install):
    found = install("acme-one", {"acme-mean": ":Mean"})
    for reference in ("acme-mean", "acme-one:acme-mean"):
        plugin = found.find("estimator", reference)
        assert (plugin.id, plugin.origin) == ("acme-mean", "acme-one 1.2")
        assert plugin.cls.__name__ == "Mean"
        assert plugin.summary == "The mean, as acme-one has it."


def test_a_name_of_two_distributions_is_refused_and_both_are_named(install):
    install("acme-one", {"acme-mean": ":Mean"})
    found = install("acme-two", {"acme-mean": ":Mean"}, version="3.0")
    with pytest.raises(PluginError, match="ambiguous") as told:
        found.find("estimator", "acme-mean")
    for reference in ("acme-one:acme-mean (acme-one 1.2)", "acme-two:acme-mean (acme-two 3.0)"):
        assert reference in str(told.value)
    assert found.find("estimator", "acme-two:acme-mean").summary.endswith("acme-two has it.")


def test_an_id_of_a_built_in_means_the_built_in_unless_a_user_typed_it(install):
    found = install("acme-one", {"ipw": ":Mean"})
    with pytest.raises(PluginError, match=r"acme-one:ipw .* and ope-bench:ipw"):
        found.find("estimator", "ipw", typed=True)
    assert found.find("estimator", "ipw").reference == "ope-bench:ipw"
    # What was found once is refused as before.
    with pytest.raises(PluginError, match="ambiguous"):
        found.find("estimator", "ipw", typed=True)
    with pytest.raises(PluginError, match="ambiguous"):
        found.named("ipw")


TYPED = [
    "ipw",
    "select[candidates=[dm,ipw]]",
    "select[anchor=ipw]",
    "select[anchor='ipw[clip=3]']",
]


def test_suites_lists_and_panels_of_ope_bench_mean_its_own_plugins(install, tmp_path, monkeypatch):
    """Another distribution has an estimator `ipw` and an environment `saito-toy`."""
    from ope_bench.logs.estimation import estimator_pairs
    from ope_bench.suites import suite as catalogue
    from ope_bench.suites.manifest import plan, specs_of
    from ope_bench.suites.suite import adhoc, find_suite, selector_of

    def shipped():
        registry.cache_clear()
        suites = [plan(find_suite(name)) for name in ("quick", "ci", "field", "samples-only")]
        listed = [spec for spec, _ in estimator_pairs(["ipw", "select", "blue"])]
        return [
            (spec.identity_json, spec.reference)
            for spec in [*(one for suite in suites for one in suite.plugins()), *listed]
        ]

    before = shipped()
    install("acme-two", {"saito-toy": ":Mean"}, version="1.0")
    points = tmp_path / "acme_two-1.0.dist-info" / "entry_points.txt"
    points.write_text(points.read_text().replace("estimators", "environments"))
    install("acme-one", {"ipw": ":Mean"})
    try:
        assert shipped() == before
        for typed in TYPED:
            for refused in (
                lambda text=typed: specs_of("estimator", text, typed=True),
                lambda text=typed: plan(adhoc(["gaussian-pairs"], [text])),
                lambda text=typed: estimator_pairs([text], typed=True),
            ):
                with pytest.raises(UsageError, match="'ipw' is ambiguous: acme-one:ipw"):
                    refused()
        with pytest.raises(UsageError, match="'saito-toy' is ambiguous"):
            plan(adhoc(["saito-toy"], ["dm"]))
        suite = tmp_path / "own.yaml"
        suite.write_text(
            "schema: 1\nenvironments: [gaussian-pairs]\n"
            "estimators:\n  - dm\n  - select: {anchor: ipw}\n"
        )
        with pytest.raises(UsageError, match=r"own.yaml:5: .*'ipw' is ambiguous"):
            plan(find_suite(str(suite)))
        # A reference is never ambiguous, and names the same trials as before.
        (whole,) = specs_of("estimator", "select[anchor='ope-bench:ipw']", typed=True)
        assert whole.params["anchor"] == "ipw"
        (theirs,) = specs_of("estimator", "select[anchor='acme-one:ipw']", typed=True)
        assert theirs.params["anchor"] == "acme-one:ipw"
        (mean,) = specs_of("estimator", "acme-one:ipw", typed=True)
        assert selector_of(mean) == "acme-one:ipw"
        # Nobody typed what an installed suite names: first its own plugins, then ope-bench's.
        text = "schema: 1\nenvironments: [saito-toy]\nestimators: [ipw, dm]\n"
        path = tmp_path / "quick.yaml"
        path.write_text(text)
        own = catalogue.SuiteFile("quick", "acme-one:quick", "acme-one 1", path)
        both = (own, *catalogue.suite_files())
        monkeypatch.setattr(catalogue, "suite_files", lambda: both)
        cells = plan(find_suite("acme-one:quick")).cells
        assert [one.estimator.reference for one in cells] == ["acme-one:ipw", "ope-bench:dm"]
        assert {one.environment.reference for one in cells} == {"ope-bench:saito-toy"}
        assert find_suite("quick", typed=False).title != "" == find_suite("acme-one:quick").title
        with pytest.raises(UsageError, match="'quick' is ambiguous"):
            find_suite("quick")
    finally:
        registry.cache_clear()


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [
        ("import a_module_that_nobody_has", ":Mean", "ModuleNotFoundError: No module named"),
        ("raise SystemExit(3)", ":Mean", "SystemExit: 3"),
        ("1 / 0", ":Mean", "ZeroDivisionError"),
        ("def f(:", ":Mean", "SyntaxError"),
        (None, ":Nothing", "AttributeError: .* has no attribute 'Nothing'"),
        (None, ":not_a_class", "not a subclass of ope_bench.Estimator"),
        (None, ":NotOurs", "not a subclass of ope_bench.Estimator"),
    ],
)
def test_a_broken_plugin_fails_only_when_it_is_used(install, source, target, reason):
    found = install("acme-broken", {"acme-broken": target, "acme-fine": target}, source)
    plugin = found.find("estimator", "acme-broken")
    with pytest.raises(PluginError, match=reason) as told:
        plugin.cls  # noqa: B018
    assert "acme-broken 1.2" in str(told.value)
    assert found.find("estimator", "ipw").cls.__name__ == "IPW"


def test_a_distribution_that_is_on_the_path_twice_counts_once(install, tmp_path, monkeypatch):
    install("acme-one", {"acme-mean": ":Mean"})
    link = tmp_path / "again"
    link.symlink_to(tmp_path)
    monkeypatch.syspath_prepend(str(link))
    importlib.invalidate_caches()
    assert Registry().find("estimator", "acme-mean").origin == "acme-one 1.2"


def test_an_unknown_id_gets_the_nearest_name():
    with pytest.raises(PluginError, match=r"unknown estimator 'ipv'; did you mean 'ipw'\?"):
        registry().find("estimator", "ipv")
    with pytest.raises(PluginError, match="`ope-bench list environments` shows"):
        registry().find("environment", "qqqqqq")


def test_a_class_in_a_file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(MODULE.format(who="I"))
    spec = resolve("estimator", f"{path}:Mean", {"shift": "2"})
    assert (spec.id, spec.params) == ("mean", {"shift": 2.0})
    assert spec.reference == f"{path}:Mean"
    again = registry().find("estimator", spec.reference)
    assert again.cls is registry().find("estimator", f"{path}:Mean").cls


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("mine.py:Absent", r"has no estimator .Absent. .it has Mean."),
        ("absent.py:Mean", "no such file"),
    ],
)
def test_a_file_or_class_that_is_not_there(tmp_path, name, reason):
    (tmp_path / "mine.py").write_text(MODULE.format(who="I"))
    with pytest.raises(PluginError, match=reason):
        registry().find("estimator", f"{tmp_path}/{name}").cls  # noqa: B018


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("MyIPW", "my-ipw"),
        ("IPWStar", "ipw-star"),
        ("Mean", "mean"),
        ("SaitoToy2", "saito-toy2"),
        ("DRos", "d-ros"),
        ("Context1D", "context-1d"),
        ("Reward2DModel", "reward-2d-model"),
        ("X2Data", "x-2-data"),
    ],
)
def test_the_id_of_a_class_without_entry_point(name, expected):
    assert class_id(type(name, (), {})) == expected


def test_an_object_has_the_spec_of_its_plugin():
    cls = registry().find("estimator", "ipw").cls
    by_object, by_name = spec_of(cls(clip=3.0)), resolve("estimator", "ipw", {"clip": 3})
    assert by_object == by_name
    assert by_object.identity == {"id": "ipw", "params": {"clip": 3.0}}


def test_a_parameter_that_json_cannot_hold_is_refused(tmp_path):
    path = tmp_path / "odd.py"
    path.write_text(MODULE.format(who="I").replace("shift: float", "shift: object"))
    with pytest.raises(ParameterError, match="cannot be stored as JSON"):
        resolve("estimator", f"{path}:Mean", {"shift": object()})


def test_what_lies_beside_a_file_may_be_a_link(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "elsewhere.py").write_text("who = 'linked'\n")
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "linked_beside.py").symlink_to(tmp_path / "elsewhere.py")
    (folder / "mine.py").write_text("from linked_beside import who\n" + MODULE.format(who="I"))
    try:
        cls = registry().find("estimator", f"{folder}/mine.py:Mean").cls
        assert sys.modules[cls.__module__].who == "linked"
    finally:
        del sys.modules["linked_beside"]


def test_worlds_are_a_word_of_every_environment():
    spec = resolve("environment", "saito-toy", {"worlds": "fixed"})
    assert spec.worlds == "fixed"
    assert "worlds" not in spec.params
    with pytest.raises(ParameterError, match="expected 'redrawn' or 'fixed'"):
        resolve("environment", "saito-toy", {"worlds": "frozen"})


def test_the_installed_entry_points_are_those_of_pyproject():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    for group in (*GROUPS.values(), "ope_bench.suites", "ope_bench.streaming", ALIASES):
        installed = {
            point.name: point.value
            for point in entry_points(group=group)
            if point.dist and point.dist.name == "ope-bench"
        }
        assert installed == declared[group], f"{group}: install again"


def test_every_built_in_can_be_loaded():
    for kind in GROUPS:
        ours = f"ope-bench {distribution('ope-bench').version}"
        built_in = [plugin for plugin in registry().plugins(kind) if plugin.origin == ours]
        assert built_in
        assert all(plugin.summary for plugin in built_in)


def test_reading_all_classes_imports_nothing_heavy():
    code = (
        "import sys\n"
        "from ope_bench.plugins.registry import registry\n"
        "for kind in ('environment', 'estimator'):\n"
        "    ours = [p for p in registry().plugins(kind) if p.origin.startswith('ope-bench ')]\n"
        "    assert [p.cls for p in ours]\n"
        "heavy = {'sklearn', 'torch', 'xgboost', 'dask', 'distributed', 'pandas', 'scipy',\n"
        "         'matplotlib', 'altair', 'pydantic', 'zuko'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"


@pytest.mark.parametrize("late", [False, True])
def test_files_whose_helpers_have_one_name_are_refused_together(tmp_path, monkeypatch, late):
    monkeypatch.setattr(sys, "path", list(sys.path))
    for who in ("one", "two"):
        folder = tmp_path / who
        folder.mkdir()
        (folder / "beside_me.py").write_text("import further_on\n")
        (folder / "further_on.py").write_text(f"who = {who!r}\n")
        place = "def later():\n    import beside_me\n" if late else "import beside_me\n"
        (folder / "mine.py").write_text(place + MODULE.format(who=who))
    try:
        resolve("estimator", f"{tmp_path}/one/mine.py:Mean")
        with pytest.raises(PluginError, match=r"two/mine\.py: 'beside_me' .*one/beside_me\.py"):
            resolve("estimator", f"{tmp_path}/two/mine.py:Mean")
        (tmp_path / "two" / "beside_me.py").rename(tmp_path / "two" / "own.py")
        # Found only by the imports of what it imports.
        (tmp_path / "two" / "other.py").write_text("import own\n" + MODULE.format(who="two"))
        with pytest.raises(PluginError, match=r"two/other\.py: 'further_on' "):
            resolve("estimator", f"{tmp_path}/two/other.py:Mean")
    finally:
        for name in ("beside_me", "further_on", "own"):
            sys.modules.pop(name, None)


def test_every_alias_means_a_built_in_and_is_none():
    ids = {plugin.id for plugin in registry().plugins("estimator")}
    assert {*registry().aliases.values()} <= ids
    assert not {alias.lower() for alias in registry().aliases} & ids


@pytest.mark.parametrize(
    ("alias", "meant"),
    [
        *(("snips", "ipws"), ("SNIPS", "ipws"), ("IPW", "ipw"), ("hajek", "ipws")),
        *(("dros", "dr-os"), ("SelfNormalizedDoublyRobust", "sndr"), ("MIPS", "mips")),
        ("SlateStandardIPS", "sips"),
    ],
)
def test_an_alias_is_the_estimator_that_it_means_and_says_so_once(alias, meant):
    said = []
    found = Registry()
    found.on_alias = said.append
    assert found.find("estimator", alias) == found.find("estimator", alias)
    assert found.find("estimator", alias) == found.find("estimator", meant)
    assert found.named(alias) == found.named(meant)
    (line,) = said
    assert alias in line
    assert meant in line


def test_results_are_found_by_an_alias_where_no_estimator_has_that_name():
    specs = [PluginSpec("estimator", f"ope-bench:{name}", name) for name in ("ipw", "iw")]
    world = PluginSpec("environment", "coins", "coins")
    records = Results([TrialRecord(Trial(world, one, 0), "", Status.OK) for one in specs])
    assert records["iw"] == [records[1]]
    assert records["ips"] == [records[0]]
    with pytest.raises(KeyError, match="snips"):
        records["snips"]


def test_from_python_an_alias_is_a_warning_and_the_key_is_that_of_the_estimator():
    with pytest.warns(UserWarning, match="hajek is named ipws"):
        spec = resolve("estimator", "hajek")
    assert spec == resolve("estimator", "ipws")
    with pytest.raises(PluginError, match="did you mean 'snips'"):
        resolve("estimator", "snipsy")


def test_an_id_of_another_distribution_goes_before_an_alias(install):
    found = install("acme-one", {"snips": ":Mean"})
    assert found.find("estimator", "snips").origin == "acme-one 1.2"


def test_an_alias_is_no_environment():
    with pytest.raises(PluginError, match="unknown environment"):
        registry().find("environment", "snips")
