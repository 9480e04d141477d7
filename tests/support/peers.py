"""Estimators beside other packages' on random logs: the largest distance of the values.

``sb-obp`` and ``vw-estimators`` are given the same weights, rewards and reward model;
``densratio`` the same Gaussian kernels around the same rows.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ope_bench.contracts.arrays import FloatArray
from ope_bench.contracts.data import Problem
from ope_bench.contracts.plugins import Estimator
from ope_environments.gaussian.gaussian_policy import GaussianPolicy
from ope_environments.gaussian.truncated_policy import PointPolicy
from ope_estimators.actions.direct.dm import DM
from ope_estimators.actions.doubly_robust.dr import DR
from ope_estimators.actions.doubly_robust.dr_os import DROS
from ope_estimators.actions.doubly_robust.dr_ps import DRPS
from ope_estimators.actions.doubly_robust.sg_dr import SGDR
from ope_estimators.actions.doubly_robust.sndr import SNDR
from ope_estimators.actions.doubly_robust.switch_dr import SwitchDR
from ope_estimators.actions.weighting.el_ipw import ELIPW
from ope_estimators.actions.weighting.ipw import IPW
from ope_estimators.actions.weighting.ipws import IPWS
from ope_estimators.actions.weighting.sg_ipw import SGIPW
from ope_estimators.continuous.kernel_ipw import KernelIPW
from ope_estimators.continuous.kernel_ipws import KernelIPWS
from ope_estimators.density_ratio.kliep import most_likely
from ope_estimators.density_ratio.riesz import LeastSquaresRatio
from support import golden_log as golden
from support import tiny_worlds as tiny

__all__ = ["PACKAGES", "distances"]

LOGS = 50
WIDTH, PENALTY = 0.7, 0.1

Distances = Iterator[tuple[str, float]]


def distances(package: str) -> Distances:
    """Compare with a package, which must be installed.

    Yields
    ------
    What is compared, and the largest distance.
    """
    yield from PACKAGES[package][1]()


def logs(least: int = 5) -> Iterator[Problem]:
    """Random logs of up to 200 rows under the policies of the golden log."""
    for seed in range(LOGS):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(least, 200))
        context = rng.integers(0, 2, n)
        action = np.array([rng.choice(3, p=golden.LOGGING[x]) for x in context])
        yield golden.problem(context, action, rng.random(n))


def largest(ours: Estimator, theirs: Callable[[Problem], float]) -> float:
    """Largest distance over the random logs, the reward model being given."""
    return max(abs(golden.run(ours, log).value - theirs(log)) for log in logs())


def beside_obp() -> Distances:
    """Every estimator of theirs that is one of ours, at the same parameter."""
    theirs = importlib.import_module("obp.ope")

    def value(peer: Any) -> Callable[[Problem], float]:
        def of(log: Problem) -> float:
            context = log.context[:, 0].astype(int)
            given = {
                "reward": log.reward,
                "action": log.action,
                "pscore": log.propensity,
                "action_dist": golden.TARGET[context][:, :, None],
                "estimated_rewards_by_reg_model": golden.REWARD_MODEL[context][:, :, None],
                "position": np.zeros(len(context), dtype=int),
            }
            return float(peer.estimate_policy_value(**given))

        return of

    pairs: dict[str, tuple[Estimator, Any]] = {
        "ipw": (IPW(), theirs.InverseProbabilityWeighting()),
        "ipw, clip": (IPW(clip=1.5), theirs.InverseProbabilityWeighting(lambda_=1.5)),
        "ipws": (IPWS(), theirs.SelfNormalizedInverseProbabilityWeighting()),
        "sg-ipw": (
            SGIPW(lambda_=0.2),
            theirs.SubGaussianInverseProbabilityWeighting(lambda_=0.2),
        ),
        "dm": (DM(), theirs.DirectMethod()),
        "dr": (DR(), theirs.DoublyRobust()),
        "dr-ps": (DRPS(clip=1.5), theirs.DoublyRobust(lambda_=1.5)),
        "sndr": (SNDR(), theirs.SelfNormalizedDoublyRobust()),
        "switch-dr": (SwitchDR(threshold=1.5), theirs.SwitchDoublyRobust(lambda_=1.5)),
        "dr-os": (DROS(lambda_=2.0), theirs.DoublyRobustWithShrinkage(lambda_=2.0)),
        "sg-dr": (SGDR(lambda_=0.2), theirs.SubGaussianDoublyRobust(lambda_=0.2)),
    }
    for name, (ours, peer) in pairs.items():
        yield name, largest(ours, value(peer))
    yield from _kernels(theirs)


def _kernels(theirs: Any) -> Distances:
    """Continuous actions, a deterministic target."""
    for name, cls, peer_cls in (
        ("kernel-ipw", KernelIPW, theirs.KernelizedInverseProbabilityWeighting),
        ("kernel-ipws", KernelIPWS, theirs.KernelizedSelfNormalizedInverseProbabilityWeighting),
    ):
        for kernel, word in (("rbf", "gaussian"), ("epanechnikov", "epanechnikov")):
            ours: Any = cls(kernel=kernel, bandwidth=WIDTH)
            peer = peer_cls(kernel=word, bandwidth=WIDTH)
            worst = 0.0
            for seed in range(LOGS):
                log = continuous(np.random.default_rng(seed))
                value = peer.estimate_policy_value(
                    reward=log.reward,
                    action_by_behavior_policy=log.action,
                    pscore=log.propensity,
                    action_by_evaluation_policy=log.target_action,
                )
                worst = max(worst, abs(tiny.run(ours, log).value - float(value)))
            yield f"{name}, {kernel}", worst


def continuous(rng: np.random.Generator) -> Problem:
    """Actions drawn from N(0, 1), a target that plays 0.2 + 0.3 x."""
    n = int(rng.integers(20, 200))
    context, action = rng.normal(size=(n, 1)), rng.normal(size=n)
    target = PointPolicy(0.2, np.array([0.3]))
    wanted = target.mean(context)
    return Problem(
        context=context,
        action=action,
        embedding=action[:, None],
        reward=rng.random(n),
        target_context=context,
        target_action=wanted,
        target_embedding=wanted[:, None],
        n_actions=None,
        propensity=np.exp(-np.square(action) / 2) / np.sqrt(2 * np.pi),
        logging_policy=GaussianPolicy(0.0, np.zeros(1), 1.0),
        target_policy=target,
        shared_contexts=True,
    )


def beside_vw() -> Distances:
    """Weighting and empirical likelihood, the largest weight unknown."""
    for name, module_name, ours in (
        ("ipw", "ips", IPW()),
        ("ipws", "snips", IPWS()),
        ("el-ipw, likelihood", "mle", ELIPW(divergence="likelihood")),
    ):
        module = importlib.import_module(f"estimators.bandits.{module_name}")
        yield name, max(abs(golden.run(ours, log).value - _added(module, log)) for log in logs())
    module = importlib.import_module("estimators.bandits.cressieread")
    kept = [log for log in logs() if not _negative_probabilities(_weights(log))]
    worst = max(abs(golden.run(ELIPW(), log).value - _added(module, log)) for log in kept)
    yield f"el-ipw, cressie-read, on {len(kept)} logs that leave all probabilities positive", worst


def _weights(log: Problem) -> FloatArray:
    context = log.context[:, 0].astype(int)
    return np.asarray(golden.TARGET[context, log.action] / log.propensity)


def _added(module: Any, log: Problem) -> float:
    """Their value of a log, row by row."""
    peer = module.Estimator()
    for weight, reward in zip(_weights(log), log.reward, strict=True):
        peer.add_example(1.0, float(reward), float(weight))
    return float(peer.get())


def _negative_probabilities(weight: FloatArray) -> bool:
    """Whether least squares alone make a probability negative, which they keep and we do not."""
    if weight.sum() < len(weight):
        return False
    some = np.append(weight, 0.0)
    mean, square = some.mean(), np.square(some).mean()
    return bool(square - mean + (1.0 - mean) * weight.max() < 0)


def beside_densratio() -> Distances:
    """Least squares with and without a mixture, and the largest likelihood.

    Their negative coefficients become 0 afterwards; so do ours here.
    """
    peer = importlib.import_module("densratio.RuLSIF")
    likelihood = importlib.import_module("densratio.KLIEP")
    rng = np.random.default_rng(0)
    logged, target = rng.normal(size=(150, 2)), rng.normal([0.5, 0.2], 0.8, size=(120, 2))
    for name, beta in (("riesz (uLSIF)", 0.0), ("rulsif", 0.1)):
        theirs = peer.RuLSIF(target, logged, beta, [WIDTH], [PENALTY], 100, verbose=False)
        kernels = _around(theirs.kernel_info.centers)
        theta = LeastSquaresRatio("linear", PENALTY, beta).solve(
            kernels(logged), kernels(target), PENALTY
        )
        ratio = kernels(logged) @ np.maximum(theta, 0.0)
        yield name, float(np.abs(ratio - theirs.compute_density_ratio(logged)).max())
    theirs = likelihood.KLIEP(target, logged, WIDTH, 100, verbose=False)
    kernels = _around(theirs.kernel_info.centers)
    theta = most_likely(kernels(logged), kernels(target))
    reached = np.log(kernels(target) @ theta).mean()
    told = np.log(theirs.compute_density_ratio(target)).mean()
    yield "kliep, likelihood that theirs reaches beyond ours", max(0.0, float(told - reached))


def _around(centres: FloatArray) -> Callable[[FloatArray], FloatArray]:
    """Gaussian kernels around the rows that they chose."""

    def kernels(rows: FloatArray) -> FloatArray:
        gaps = np.square(rows[:, None, :] - centres).sum(axis=2)
        return np.asarray(np.exp(-0.5 * gaps / WIDTH**2))

    return kernels


PACKAGES: dict[str, tuple[str, Callable[[], Distances]]] = {
    "sb-obp": ("obp", beside_obp),
    "vw-estimators": ("estimators.bandits.ips", beside_vw),
    "densratio": ("densratio", beside_densratio),
}
"""By distribution: its module, and the comparison."""
