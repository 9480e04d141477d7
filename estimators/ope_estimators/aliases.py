"""Other names of the estimators: those of papers, and the classes of Open Bandit Pipeline."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["ALIASES"]

ALIASES: Mapping[str, str] = {
    "ips": "ipw",
    "iw": "ipw",
    "is": "ipw",
    "snips": "ipws",
    "snipw": "ipws",
    "sn-ips": "ipws",
    "sn-ipw": "ipws",
    "hajek": "ipws",
    "dros": "dr-os",
    "InverseProbabilityWeighting": "ipw",
    "SelfNormalizedInverseProbabilityWeighting": "ipws",
    "SubGaussianInverseProbabilityWeighting": "sg-ipw",
    "DirectMethod": "dm",
    "DoublyRobust": "dr",
    "SelfNormalizedDoublyRobust": "sndr",
    "SwitchDoublyRobust": "switch-dr",
    "DoublyRobustWithShrinkage": "dr-os",
    "SubGaussianDoublyRobust": "sg-dr",
    "MarginalizedInverseProbabilityWeighting": "mips",
    "KernelizedInverseProbabilityWeighting": "kernel-ipw",
    "KernelizedSelfNormalizedInverseProbabilityWeighting": "kernel-ipws",
    "KernelizedDoublyRobust": "kernel-dr",
    "BalancedInverseProbabilityWeighting": "ipw-star",
    "SlateStandardIPS": "sips",
    "SlateRewardInteractionIPS": "rips",
    "SlateIndependentIPS": "iips",
    "SlateCascadeDoublyRobust": "cascade-dr",
}
"""The id of the estimator that each name means; letters may be small or capital."""
