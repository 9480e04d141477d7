from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ope_bench.base.errors import OpeBenchError, SuiteError
from ope_bench.suites.manifest import plan
from ope_bench.suites.suite import Selector, Suite, adhoc, read_suite

WHOLE = """\
schema: 1
title: RMSE against the number of actions
truth: expected
replicates: 1e2
seed: 7
devices: [cpu, cuda, cpu]
timeout: 1m30s
memory: 4GiB
timing: 3
environments:
  - saito-toy: {n_actions: [10, 50], n_samples: 1000}
  - gaussian
estimators:
  - ipw
  - epws[classifier=[gbm,xgboost]]
  - epws-paper: {as: "EPWS as printed"}
  - dm:
exclude:
  - {environment: {n_actions: 500}, estimator: dm}
  - {environment: "saito-toy[n_actions=10]", device: cuda}
"""
SHORT = "schema: 1\nenvironments: [a]\nestimators: [b]\n"


def _read(tmp_path: Path, text: str | bytes) -> Suite:
    path = tmp_path / "mine.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_suite(path)


def test_a_suite_is_read_whole(tmp_path: Path) -> None:
    suite = _read(tmp_path, WHOLE)
    assert (suite.name, suite.title) == ("mine", "RMSE against the number of actions")
    assert (suite.truth, suite.replicates, suite.seed) == ("expected", 100, 7)
    assert suite.devices == ("cpu", "cuda")
    assert (suite.timeout, suite.memory, suite.timing) == (90.0, 4 * 1024**3, 3)
    toy = Selector("saito-toy", {"n_actions": [10, 50], "n_samples": 1000})
    assert [entry.selector for entry in suite.environments] == [toy, Selector("gaussian")]
    assert [entry.selector for entry in suite.estimators] == [
        Selector("ipw"),
        Selector("epws", {"classifier": ["gbm", "xgboost"]}),
        Selector("epws-paper", {}, "EPWS as printed"),
        Selector("dm"),
    ]
    first, second = suite.exclude
    assert first.environment == Selector("", {"n_actions": 500})
    assert first.estimator == Selector("dm")
    assert second.device == "cuda"


def test_what_is_not_said_has_a_default(tmp_path: Path) -> None:
    suite = _read(tmp_path, SHORT)
    assert (suite.truth, suite.replicates, suite.seed, suite.timing) == ("expected", 20, 0, False)
    assert suite.devices == ("cpu",)
    assert suite.memory is None


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "mine.yaml: .*needs schema, environments, estimators"),
        ("- a\n", "mine.yaml:1: .*needs schema"),
        ("environments: [a]\nestimators: [b]\n", "mine.yaml:1: .*`schema: 1`"),
        ("schema: 1\nestimators: [b]\n", "mine.yaml:1: `environments:` .*add"),
        (SHORT.replace("schema: 1", "schema: 2"), "mine.yaml:1: schema 2 .*`schema: 1`"),
        (SHORT.replace("schema: 1", "schema: true"), "mine.yaml:1: schema"),
        (SHORT + "replicats: 3\n", "mine.yaml:4: unknown key 'replicats'; did you mean"),
        (SHORT + "replicates: -1\n", "mine.yaml:4: 'replicates' = -1: .*greater than or equal"),
        (SHORT + "replicates: many\n", "mine.yaml:4: 'replicates' = 'many'"),
        (SHORT + "replicates: true\n", "mine.yaml:4: replicates: True is not allowed"),
        (SHORT + "seed: 1.5\n", "mine.yaml:4: 'seed' = 1.5"),
        (SHORT + "truth: empircal\n", "mine.yaml:4: 'truth' = 'empircal': .*did you mean"),
        (SHORT + "devices: [gpu]\n", "mine.yaml:4: 'devices'"),
        (SHORT + "devices: []\n", "mine.yaml:4: `devices:`"),
        (SHORT + "timeout: soon\n", "mine.yaml:4: timeout: 'soon' is not a duration"),
        (SHORT + "timeout: -1\n", "mine.yaml:4: timeout: -1"),
        (SHORT + "memory: 4 parsecs\n", "mine.yaml:4: memory: '4 parsecs' is not a memory size"),
        (SHORT + "timing: -3\n", "mine.yaml:4: 'timing' = -3"),
        ("schema: 1\nenvironments: []\nestimators: [b]\n", "mine.yaml:2: `environments:`"),
        ("schema: 1\nenvironments: a\nestimators: [b]\n", "mine.yaml:2: 'environments'"),
        ("schema: 1\nenvironments: [a]\nestimators:\n  - [b]\n", "mine.yaml:4: .*not an entry"),
        ("schema: 1\nenvironments: [a]\nestimators:\n  - 3\n", "mine.yaml:4: 3 is not an entry"),
        (
            "schema: 1\nestimators: [b]\nenvironments:\n  - a:\n    n: 3\n",
            "mine.yaml:4: 2 keys in one entry; indent the parameters under 'a:'",
        ),
        (SHORT.replace("[b]", "[{b: 3}]"), "mine.yaml:3: the parameters of 'b'"),
        (SHORT.replace("[b]", "[{b: {as: 3}}]"), "mine.yaml:3: as: 3 is not text"),
        (SHORT.replace("[b]", "['b[x=']"), "mine.yaml:3: cannot read"),
        (SHORT + "exclude: [dm]\n", "mine.yaml:4: 'exclude' = 'dm': .*{key: value}"),
        (SHORT + "exclude: [{}]\n", "mine.yaml:4: 'exclude' = {}"),
        (SHORT + "exclude:\n  - {estimtor: dm}\n", "mine.yaml:5: unknown key 'estimtor'; did you"),
        (SHORT + "exclude: [{device: tpu}]\n", "mine.yaml:4: device: 'tpu' is not"),
        (SHORT + "exclude: [{estimator: [dm]}]\n", "mine.yaml:4: 'estimator' = "),
    ],
)
def test_a_wrong_suite_is_refused_in_one_line(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(SuiteError, match=complaint) as caught:
        _read(tmp_path, text)
    assert "\n" not in str(caught.value)


def test_a_file_that_a_suite_names_is_found_beside_it(tmp_path: Path) -> None:
    suite = _read(tmp_path, SHORT.replace("[b]", "['./my.py:Mine[a=1]']"))
    assert suite.estimators[0].selector.reference == f"{tmp_path / 'my.py'}:Mine"


def test_a_command_line_is_a_suite_too() -> None:
    suite = adhoc(["a[n=[1,2]]"], ["b", "c"])
    assert (suite.name, suite.truth, suite.replicates, suite.seed) == ("adhoc", "expected", 20, 0)
    assert suite.environments[0].selector.params == {"n": [1, 2]}


_words = st.sampled_from(
    ["a", "ipw", "saito-toy", "n_samples", "exclude", "cpu", "60s", "x[y=[1,2]]", "x[", "", "1e3"]
)
_anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _words | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_words, inner, max_size=3),
    max_leaves=8,
)
_keys = [
    *("title", "truth", "replicates", "seed", "devices", "timeout", "memory", "timing"),
    *("environments", "estimators", "exclude", "schema", "replicats"),
]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.sampled_from(_keys), _anything, max_size=6))
def test_no_content_gives_anything_but_a_plan_or_an_error_of_ours(
    tmp_path: Path, content: dict[str, Any]
) -> None:
    import yaml

    required = {"schema": 1, "environments": ["saito-toy"], "estimators": ["ipw"]}
    text = yaml.safe_dump({**required, **content}, allow_unicode=True)
    try:
        plan(_read(tmp_path, text))
    except OpeBenchError as exc:
        _one_line(str(exc))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, len(WHOLE) - 1), st.binary(max_size=3))
def test_no_typing_slip_gives_anything_but_a_suite_or_an_error_of_ours(
    tmp_path: Path, place: int, slip: bytes
) -> None:
    text = WHOLE.encode()
    try:
        _read(tmp_path, text[:place] + slip + text[place + len(slip) :])
    except OpeBenchError as exc:
        _one_line(str(exc))


def _one_line(message: str) -> None:
    assert message
    assert len(message) < 2_000
