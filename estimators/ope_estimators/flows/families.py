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
_NEAR_IDENTITY = ("maf", "nsf")


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
    module = getattr(zuko.flows, _CLASSES[name])(features, context, **options)
    if name in _NEAR_IDENTITY:
        _calm(module)
    return module


def _calm(module: Any) -> None:
    """Start maps of a single column near the identity, as networks start maps of several.

    They have no network but bare parameters, drawn from N(0, 1): too far from anything standard
    for a few hundred steps.
    """
    import torch
    import zuko

    with torch.no_grad():
        for part in module.modules():
            if isinstance(part, zuko.flows.ElementWiseTransform) and hasattr(part, "phi"):
                for parameter in part.phi:
                    parameter.mul_(0.01)
