"""Normalizing flows of zuko, by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from ope_bench import UnavailableError

__all__ = ["FlowName", "flow_module", "is_trained_alone"]

FlowName = Literal["maf", "nsf", "realnvp", "nice", "naf", "sospf", "bpf", "gf", "maf-norm"]
"""Masked autoregressive, neural spline, RealNVP, NICE, neural autoregressive, sum-of-squares
polynomial, Bernstein polynomial and Gaussianization flows; masked autoregressive with batch
normalization after every map."""

_CLASSES = {
    "maf": "MAF",
    "nsf": "NSF",
    "realnvp": "RealNVP",
    "nice": "NICE",
    "naf": "NAF",
    "sospf": "SOSPF",
    "bpf": "BPF",
    "gf": "GF",
    "maf-norm": "MAF",
}
_COUPLING = ("realnvp", "nice")
_NEAR_IDENTITY = ("maf", "nsf", "maf-norm")
_NORMALIZED = ("maf-norm",)


def flow_module(
    name: FlowName, features: int, context: int, transforms: int, hidden: Sequence[int]
) -> Any:
    """Build an untrained flow of ``features`` columns given ``context`` columns.

    Raises
    ------
    UnavailableError : a coupling flow, which moves some columns given others, on one column.
    """
    import zuko

    if name in _COUPLING and features < 2:
        msg = f"{name} couples columns, but there is only one; use maf or nsf"
        raise UnavailableError(msg)
    options: dict[str, Any] = {"transforms": transforms}
    if name != "gf" or context:
        options["hidden_features"] = tuple(hidden)
    module = getattr(zuko.flows, _CLASSES[name])(features, context, **options)
    if name in _NEAR_IDENTITY:
        _init_near_identity(module)
    if name in _NORMALIZED:
        from ope_estimators.flows.batch_norm import BatchNorm

        maps = module.transform.transforms
        both = [part for one in maps for part in (one, BatchNorm(features))]
        module.transform.transforms = type(maps)(both)
    return module


def is_trained_alone(name: FlowName) -> bool:
    """Return whether flows of the family cannot be stacked: each batch has moments of its own."""
    return name in _NORMALIZED


def _init_near_identity(module: Any) -> None:
    """Initialize maps of a single column near the identity, like maps of several columns.

    They have no network but parameters drawn from N(0, 1), so initial maps are far from the
    identity and do not converge in a few hundred steps.
    """
    import torch
    import zuko

    with torch.no_grad():
        for part in module.modules():
            if isinstance(part, zuko.flows.ElementWiseTransform) and hasattr(part, "phi"):
                for parameter in part.phi:
                    parameter.mul_(0.01)
