"""Normalizing flows by name, all of them zuko's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from ope_bench.errors import UnavailableError

__all__ = ["FlowName", "flow_module"]

FlowName = Literal["maf", "nsf", "realnvp", "nice", "naf", "sospf", "bpf", "gf"]
"""Masked autoregressive, neural spline, RealNVP, NICE, neural autoregressive, sum-of-squares
polynomial, Bernstein polynomial and Gaussianization flows."""

_CLASSES = {
    "maf": "MAF",
    "nsf": "NSF",
    "realnvp": "RealNVP",
    "nice": "NICE",
    "naf": "NAF",
    "sospf": "SOSPF",
    "bpf": "BPF",
    "gf": "GF",
}
_COUPLING = ("realnvp", "nice")


def flow_module(
    name: FlowName, features: int, context: int, transforms: int, hidden: Sequence[int]
) -> Any:
    """An untrained flow of ``features`` columns given ``context`` columns, a torch module.

    Raises
    ------
    UnavailableError : a coupling flow, which moves some columns given others, on one column.
    """
    import zuko

    if name in _COUPLING and features < 2:
        msg = f"{name} couples columns and there is only one; use maf or nsf"
        raise UnavailableError(msg)
    options: dict[str, Any] = {"transforms": transforms}
    if name != "gf" or context:
        options["hidden_features"] = tuple(hidden)
    return getattr(zuko.flows, _CLASSES[name])(features, context, **options)
