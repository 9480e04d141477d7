"""Parameters that keep the checks of a plugin quick."""

from __future__ import annotations

from typing import Any

from ope_bench.environment import Environment
from ope_bench.estimator import Estimator
from ope_bench.parameters import signature

__all__ = ["small"]

N_SAMPLES = 400


def small(plugin: Estimator | Environment) -> dict[str, Any]:
    """The plugin's parameters, those at their defaults replaced by its ``check_params``.

    Environments sample at most 400 rows where nothing else is said.
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
