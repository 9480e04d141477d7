"""The parameters of every built-in and the key of one trial, compared with a committed list.

Stored trials are found by key, and a key is made of the validated parameters. So a built-in keeps
its parameters' names, order, types and defaults. The key is that of replicate 3 and seed 7 with
default parameters: an environment with `ipw`, an estimator on `saito-toy`. A new built-in need not
be in the list. A built-in may gain a parameter that its class lists in `added_parameters`: the
list gains it too, and the key stays.
"""

import inspect
import json
from pathlib import Path

import pytest

from ope_bench.contracts.parameters import describe, hints_of, validated
from ope_bench.plugins.registry import registry
from ope_bench.plugins.spec import resolve
from ope_bench.trials.record import Trial

BUILT_INS = json.loads(Path(__file__).with_name("built_ins.json").read_text(encoding="utf-8"))


@pytest.fixture(params=list(BUILT_INS))
def built_in(request):
    """Kind, id and what the list says."""
    kind, plugin_id = request.param.split()
    return kind, plugin_id, BUILT_INS[request.param]


def test_parameters_and_key_are_those_of_the_list(built_in):
    kind, plugin_id, expected = built_in
    cls = registry().find(kind, f"ope-bench:{plugin_id}").cls
    spec = resolve(kind, f"ope-bench:{plugin_id}")
    toy, ipw = resolve("environment", "saito-toy"), resolve("estimator", "ipw")
    trial = Trial(spec, ipw, 3, seed=7) if kind == "environment" else Trial(toy, spec, 3, seed=7)
    found = {"class": cls.__qualname__, "key": trial.key, "parameters": describe(cls)}
    assert found == expected


def test_the_constructor_takes_and_stores_the_parameters_of_the_list(built_in):
    kind, plugin_id, expected = built_in
    cls = registry().find(kind, plugin_id).cls
    names = [row["name"] for row in expected["parameters"]]
    shown = inspect.signature(cls).parameters
    assert [(name, repr(one.default)) for name, one in shown.items()] == [
        (row["name"], row["default"]) for row in expected["parameters"]
    ]
    assert list(hints_of(cls)) == names
    values = [object() for _ in names]
    given = dict(zip(names, values, strict=True))
    assert vars(cls(**given)) == given
    assert cls().get_params(deep=False) == validated(cls, {})
    assert repr(cls()) == f"{cls.__name__}()"
