"""Claims about estimators that pool many actions, by the suite ``large-actions``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from judging.claim import Claim
from judging.errors import better
from judging.line import Line
from judging.trials import Method, Trials

__all__ = ["many_actions"]

SEPARATE: dict[str, Any] = {"regressor": "ridge", "action_features": "separate"}
RIDGE: dict[str, Any] = {"weights": "regression", "regressor": "ridge"}

IPW, IPWS = Method.of("ipw", "IPW"), Method.of("ipws", "IPWS")
EIPW = Method.of("eipw", "exact weights of embeddings")
MIPS = Method.of("mips", "mips", classifier="softmax")
MIPS_RIDGE = Method.of("mips", "mips, ridge", **RIDGE)
MIPS_BOOSTED = Method.of("mips", "mips, hist-gbm", weights="regression", regressor="hist-gbm")
MIPS_SLOPE = Method.of("mips", "mips, ridge, dimensions by slope", **RIDGE, dimensions="slope")
DM = Method.of("dm", "dm", cross_fit=5, **SEPARATE)
DR = Method.of("dr", "dr", **SEPARATE)
MDR = Method.of("mdr", "mdr", regressor="ridge")
OFFCEM = Method.of("offcem", "offcem", **SEPARATE)
FIVE = Method.of("offcem", "offcem, 5 clusters", clusters=5, **SEPARATE)
PAIRWISE = Method.of(
    "offcem",
    "offcem, pairwise",
    regressor="ridge",
    action_features="embedding",
    reward="pairwise",
)
GROUP = Method.of("group-ipw", "group-ipw", **SEPARATE)
LEARNED = Method.of("learned-mips", "learned-mips", classifier="softmax")
MR = Method.of("mr", "mr")
PC = Method.of("pc-ipw", "pc-ipw")
PC_NORMALIZED = Method.of("pc-ipw", "pc-ipw normalized", normalize=True)

THIRD = "embedding tells a third"
OWN = "rewards of the actions' own"
GROUPS = "groups of actions"
NEW = "half of the target's items new"
TOY = "toy, 500 actions"
TELLING = ("100 actions", "1,000 actions", "5,000 actions", TOY)
HIDDEN = (THIRD, OWN)
UNSUPPORTED = ("30% never played", "90% never played", NEW)
SETTINGS = (*TELLING, *HIDDEN, GROUPS, *UNSUPPORTED)
FEWER = tuple(name for name in SETTINGS if name != "5,000 actions")
"""Where a pairwise model runs: all pairs of rows and actions are its cost."""


def many_actions(results: Path) -> list[Claim]:
    """The claims; errors against the value.

    Parameters
    ----------
    results : the folder results/.
    """
    trials = Trials(results / "large-actions", "setting", setting=setting_of)
    return [
        _embeddings(trials),
        _regression(trials),
        _dimensions(trials),
        _mdr(trials),
        _offcem(trials),
        _group(trials),
        _learned(trials),
        _marginal_ratio(trials),
        _convolution(trials),
    ]


def setting_of(environment: str, params: dict[str, Any]) -> str:
    """What the setting is about."""
    if environment == "new-items":
        return NEW
    if environment == "saito-toy":
        return TOY
    if params["n_unobserved"]:
        return THIRD
    if params.get("n_groups"):
        return GROUPS
    if params.get("own_std"):
        return OWN
    if params["deficient_share"]:
        return f"{params['deficient_share']:.0%} never played"
    return f"{params['n_actions']:,} actions"


def _against(
    trials: Trials, one: Method, others: Sequence[Method], settings: Sequence[str]
) -> list[Line]:
    return [line for other in others for line in better(trials, one, other, settings)]


def _by_structure(trials: Trials, one: Method, others: Sequence[Method]) -> dict[str, list[Line]]:
    """Lines of one method against others, by what holds of embeddings and support."""
    return {
        "embeddings tell all": _against(trials, one, others, TELLING),
        "embeddings tell a part": _against(trials, one, others, HIDDEN),
        "groups of actions": _against(trials, one, others, (GROUPS,)),
        "support is missing": _against(trials, one, others, UNSUPPORTED),
    }


def _embeddings(trials: Trials) -> Claim:
    return Claim(
        "Estimated weights of embeddings err less than weights of actions and reward models",
        "suite `large-actions`; Saito and Joachims 2022, figures 2 to 5",
        _by_structure(trials, MIPS, (IPW, IPWS, DR, DM)),
        "The published rivals are the same, with random forests for the reward; here a line for "
        "each action, which contains the reward. Published sizes are larger.",
        aside=better(trials, EIPW, MIPS, SETTINGS),
    )


def _regression(trials: Trials) -> Claim:
    return Claim(
        "A regression of weights errs less than a classifier of all actions",
        "suite `large-actions`",
        {one.name: better(trials, one, MIPS, SETTINGS) for one in (MIPS_RIDGE, MIPS_BOOSTED)},
        "Both estimate the mean weight given context and embedding. The classifier knows the "
        "weights of all actions; a regression learns from the logged ones alone, of which few are "
        "large.",
    )


def _dimensions(trials: Trials) -> Claim:
    return Claim(
        "Dimensions of the embedding that are chosen by slope err less than all of them",
        "suite `large-actions`; Saito and Joachims 2022, section 3.2",
        {"regression": better(trials, MIPS_SLOPE, MIPS_RIDGE, SETTINGS)},
        "Published for embeddings of twenty dimensions; these have up to three.",
    )


def _mdr(trials: Trials) -> Claim:
    return Claim(
        "A reward model beside weights of embeddings errs less than either",
        "suite `large-actions`; Shimizu and Forastiere 2023",
        {
            "against weights of embeddings": better(trials, MDR, EIPW, SETTINGS),
            "against doubly robust with weights of actions": better(trials, MDR, DR, SETTINGS),
        },
        "Weights of embeddings are exact in both. The public code behind the published figures "
        "multiplies the weights of dimensions.",
    )


def _offcem(trials: Trials) -> Claim:
    rivals = (MIPS, DR, DM, IPW)
    return Claim(
        "Weights of clusters with a reward model err less than what they are made of",
        "suite `large-actions`; Saito, Ren and Joachims 2023",
        {
            **_by_structure(trials, OFFCEM, rivals),
            "as many clusters as usual against five": better(trials, OFFCEM, FIVE, SETTINGS),
            "pairwise model against regression": better(trials, PAIRWISE, OFFCEM, FEWER),
        },
        "With groups, clusters of embeddings find them. The published truth comes from another "
        "clustering than that of the logs.",
    )


def _group(trials: Trials) -> Claim:
    return Claim(
        "Groups of actions by predicted reward err less than actions and than embeddings",
        "suite `large-actions`; Peng et al. 2023",
        {
            "against IPW": better(trials, GROUP, IPW, SETTINGS),
            "against mips": better(trials, GROUP, MIPS, SETTINGS),
            "against its own reward model": better(trials, GROUP, DM, SETTINGS),
        },
        "The groups are made by the model of the direct method that it is compared with.",
    )


def _learned(trials: Trials) -> Claim:
    return Claim(
        "Embeddings that are learned from rewards err less than given ones",
        "suite `large-actions`; Cief et al. 2024",
        {
            "embeddings tell all": better(trials, LEARNED, MIPS, TELLING),
            "embeddings tell a part": better(trials, LEARNED, MIPS, HIDDEN),
            "against IPW": better(trials, LEARNED, IPW, SETTINGS),
            "against dm": better(trials, LEARNED, DM, SETTINGS),
        },
        "Few rows of each action make its learned embedding noise; published data have many.",
    )


def _marginal_ratio(trials: Trials) -> Claim:
    return Claim(
        "Weights as a function of the reward err less than weights of actions and embeddings",
        "suite `large-actions`; Taufiq et al. 2023",
        {
            "against IPW": better(trials, MR, IPW, SETTINGS),
            "against mips": better(trials, MR, MIPS, SETTINGS),
            "against dr": better(trials, MR, DR, SETTINGS),
        },
        "Their expected value given the reward has less variance than the weights; its regression "
        "is made from the same few large weights.",
    )


def _convolution(trials: Trials) -> Claim:
    return Claim(
        "Policies smoothed over like actions err less than weights of actions and embeddings",
        "suite `large-actions`; Sachdeva et al. 2024",
        {
            "against IPW": better(trials, PC, IPW, SETTINGS),
            "normalized, against IPWS": better(trials, PC_NORMALIZED, IPWS, SETTINGS),
            "against mips": better(trials, PC, MIPS, SETTINGS),
            "against offcem": better(trials, PC, OFFCEM, SETTINGS),
        },
        "The bandwidth is chosen by slope, in the publication with the truth.",
    )
