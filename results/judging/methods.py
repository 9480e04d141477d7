"""The estimators that claims about the paper's experiments name."""

from __future__ import annotations

from typing import Any

from judging.trials import Method

__all__ = [
    "CORRECTED",
    "DM_MLP",
    "DM_QUADRATIC",
    "DM_SEPARATE",
    "DM_STAR",
    "DM_STAR_PAPER",
    "DM_STAR_QUADRATIC",
    "DM_STAR_SEPARATE",
    "DR",
    "DR_QUADRATIC",
    "EDM",
    "EDM_QUADRATIC",
    "EDM_STAR",
    "EDM_STAR_QUADRATIC",
    "EDR",
    "EIPW",
    "EIPWS",
    "EPWS",
    "EPWS_PAPER",
    "FEPWS",
    "FEPWS_PAPER",
    "IPW",
    "IPWS",
    "IPWS_STAR",
    "IPW_STAR",
    "IPW_STAR_LAPLACE",
    "IPW_STAR_ZERO",
    "LOGGING",
    "MIPS",
    "PRINTED",
    "THREE",
    "TWO",
    "direct",
]

IPW, IPWS = Method.of("ipw", "IPW"), Method.of("ipws", "IPWS")
EIPW, EIPWS = Method.of("eipw", "EIPW"), Method.of("eipws", "EIPWS")
EPWS, FEPWS = Method.of("epws", "EPWS"), Method.of("fepws", "FEPWS")
EPWS_PAPER = Method.of("epws-paper", "EPWS as printed")
FEPWS_PAPER = Method.of("fepws-paper", "FEPWS as printed")
LOGGING = Method.of("logging-average", "logging average")
DM_STAR = Method.of("dm-star", "DM*")
DM_STAR_PAPER = Method.of("dm-star-paper", "DM* as printed")
IPW_STAR = Method.of("ipw-star", "IPW*", on_missing="fail")
IPW_STAR_ZERO = Method.of("ipw-star", "IPW* without them", on_missing="zero")
IPW_STAR_LAPLACE = Method.of("ipw-star", "IPW* with pseudo-counts", on_missing="laplace")

QUADRATIC: dict[str, Any] = {"regressor": "quadratic"}
EDM, EDM_QUADRATIC = Method.of("edm", "EDM"), Method.of("edm", "EDM (quadratic)", **QUADRATIC)
DR = Method.of("dr", "DR")
DR_QUADRATIC = Method.of("dr", "DR (quadratic)", action_features="embedding", **QUADRATIC)
MIPS = Method.of("mips", "MIPS")
DM_QUADRATIC = Method.of("dm", "DM (quadratic)", action_features="embedding", **QUADRATIC)
DM_SEPARATE = Method.of("dm", "DM (each action's own)", action_features="separate", **QUADRATIC)
DM_MLP = Method.of("dm", "DM (mlp)", action_features="embedding", regressor="mlp")

DM_STAR_QUADRATIC = Method.of(
    "dm-star", "DM* (quadratic)", action_features="embedding", **QUADRATIC
)
DM_STAR_SEPARATE = Method.of("dm-star", "DM* (each action's own)", action_features="separate")
EDM_STAR = Method.of("edm-star", "EDM*")
EDM_STAR_QUADRATIC = Method.of("edm-star", "EDM* (quadratic)", **QUADRATIC)
EDR = Method.of("edr", "EDR")
IPWS_STAR = Method.of("ipws-star", "IPWS* without them", on_missing="zero")


def direct(features: str, *, printed: bool = False) -> Method:
    """The direct method with gradient boosting and these features of actions."""
    name = f"DM as printed ({features})" if printed else f"DM ({features})"
    return Method.of("dm-paper" if printed else "dm", name, action_features=features)


THREE = ("one-hot", "ordinal", "embedding")
TWO = ("one-hot", "ordinal")
PRINTED = tuple(direct(features, printed=True) for features in THREE)
CORRECTED = tuple(direct(features) for features in THREE)
