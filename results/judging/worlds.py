"""Names of settings that differ in more than one parameter."""

from __future__ import annotations

from typing import Any

__all__ = ["behance_target", "gaussian_pair", "world_of"]


def world_of(name: str, params: dict[str, Any]) -> str:
    """The environment, with its data set where it has several."""
    return f"{name} {params['dataset']}" if name == "multiclass" else name


def gaussian_pair(_: str, params: dict[str, Any]) -> str:
    """Dimensions, or the distance in one."""
    if params["dimension"] > 1:
        return f"{params['dimension']:2d} dimensions"
    distance = abs(params["target_mean"] - params["logging_mean"])
    return f"1 dimension, means {distance:g} apart"


def behance_target(_: str, params: dict[str, Any]) -> str:
    """The target policy, from what the log says nothing about to what it covers."""
    return {
        "epsilon-greedy": f"greedy, epsilon {params['epsilon']:g}",
        "top-k": f"top {params['top_k']:6,}",
        "popularity": f"popularity, beta {params['target_beta']:g}",
    }[params["target"]]
