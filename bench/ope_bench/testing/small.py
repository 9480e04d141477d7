"""Small parameters, with which checks of a plugin are quick."""

from __future__ import annotations

from typing import Any

from ope_bench.contracts.environment import Environment
from ope_bench.contracts.estimator import Estimator
from ope_bench.contracts.parameters.declaration import signature

__all__ = ["check_parameters"]

N_SAMPLES = 400


def check_parameters(plugin: Estimator | Environment) -> dict[str, Any]:
    """Return the plugin's parameters, with defaults replaced by its ``check_params``.

    Environments sample at most 400 rows unless ``check_params`` says otherwise.
    """
    cls = type(plugin)
    params = plugin.get_params(deep=False)
    quick = dict(cls.check_params)
    if isinstance(plugin, Environment) and "n_samples" in params:
        quick.setdefault("n_samples", N_SAMPLES)
    for name, parameter in signature(cls).items():
        untouched = params[name] is parameter.default or params[name] == parameter.default
        if name in quick and untouched:
            params[name] = quick[name]
    return params
