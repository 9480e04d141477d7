"""What others publish of weights, doubly robust forms and kernels, put as claims about suites."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from judging.claim import Claim
from judging.errors import better
from judging.failures import never_fails
from judging.line import Line
from judging.many_actions import many_actions
from judging.trials import Method, Trials

__all__ = ["field"]

OVERLAP = {0.5: "mild", 1.5: "heavy", 3.0: "rare"}
"""Overlap by the logging policy's inverse temperature, for the suite's uniform target."""

MODELS: dict[str, dict[str, Any]] = {
    "right": {"regressor": "ridge", "action_features": "separate"},
    "wrong": {"regressor": "ridge"},
    "missing": {"regressor": "sklearn.dummy.DummyRegressor"},
}

IPW, IPWS = Method.of("ipw", "IPW"), Method.of("ipws", "IPWS")


def field(results: Path) -> list[Claim]:
    """All claims; errors against the value.

    Parameters
    ----------
    results : the folder results/.
    """
    plain = Trials(results / "weighting", "setting", setting=weighting_setting)
    robust = Trials(results / "doubly-robust", "setting", setting=robust_setting)
    kernels = Trials(results / "continuous", "target", setting=continuous_target)
    arms = json.loads((results / "performance/rare-arms.json").read_text(encoding="utf-8"))
    return [
        _normalized(plain, [Line(**line) for line in arms["lines"]]),
        _shrunk(plain),
        _divided(plain),
        _rules(plain),
        _control(plain),
        _doubly_robust(robust),
        _residual_weights(robust),
        _divided_residuals(robust),
        _more_robust(robust),
        _kernels_answer(kernels),
        _kernel_with_model(kernels),
        _bandwidth(kernels),
        *many_actions(results),
    ]


def weighting_setting(_: str, params: dict[str, Any]) -> str:
    """Overlap, and the offset or kind of the rewards."""
    beta = params["logging_beta"]
    if params["reward"] == "logistic":
        return f"rewards 0 or 1, logging beta {beta:g}"
    return f"{OVERLAP[beta]}, offset {params.get('reward_offset', 0.0):g}"


def robust_setting(_: str, params: dict[str, Any]) -> str:
    """The kind of the rewards and the logging policy's inverse temperature."""
    kind = "rewards 0 or 1" if params["reward"] == "logistic" else "linear rewards"
    return f"{kind}, logging beta {params['logging_beta']:g}"


def continuous_target(_: str, params: dict[str, Any]) -> str:
    """The target policy, and whether its support was logged."""
    if params["target_std"]:
        return f"deviation {params['target_std']:g}"
    if params["cut"] is not None:
        return "one action, half of them never logged"
    return f"one action, slope {params['target_slope']:g}"


def _sg(name: str, **params: Any) -> Method:
    return Method.of("sg-ipw", name, **params)


SG_NORMALIZED = _sg("sg-ipw normalized", normalize=True)
SHRUNK = (
    _sg("sg-ipw"),
    Method.of("ix-ipw", "ix-ipw"),
    Method.of("ls-ipw", "ls-ipw"),
    Method.of("lse-ipw", "lse-ipw"),
    Method.of("es-ipw", "es-ipw ratio", form="ratio"),
    Method.of("ipw", "IPW clipped at root n", clip="root-n"),
)


def _normalized(trials: Trials, arms: Sequence[Line]) -> Claim:
    on_arms: dict[str, list[Line]] = {}
    for line in arms:
        on_arms.setdefault(f"{line.what.partition(' / ')[0]}, ten arms", []).append(line)
    return Claim(
        "Shrunk weights that are divided by their sum err less than self-normalized weights",
        "suite `weighting`, and [ten arms](performance/rare-arms.md)",
        {
            **on_arms,
            "sg-ipw": better(trials, SG_NORMALIZED, IPWS),
            "ix-ipw": better(
                trials, Method.of("ix-ipw", "ix-ipw normalized", normalize=True), IPWS
            ),
            "es-ipw": better(
                trials,
                Method.of("es-ipw", "es-ipw ratio normalized", form="ratio", normalize=True),
                IPWS,
            ),
            "clip at root n": better(
                trials,
                Method.of("ipw", "clipped and normalized", clip="root-n", normalize=True),
                IPWS,
            ),
        },
        "Shrinking lowers the variance where few rows carry the weight and moves the estimate "
        "toward the mean of the logs. Where the policies overlap well there is little variance to "
        "save. The published ranking is that of ten arms with rewards of 0 and 1, of which the "
        "best is rarely logged. On the suite's contextual bandits, where every context has other "
        "rare actions, it is not reproduced.",
    )


def _shrunk(trials: Trials) -> Claim:
    return Claim(
        "A transform that shrinks weights errs less than importance weighting as it is",
        "suite `weighting`; sg-ipw: Metelli et al. 2021, ix-ipw: Gabbianelli et al. 2023, ls-ipw: "
        "Sakhi et al. 2024, lse-ipw: Behnamnia et al. 2025, es-ipw: Aouali et al. 2023",
        {method.name: better(trials, method, IPW) for method in SHRUNK},
        "The published comparisons have rewards of 0 and 1 or a value near 0. None of the weights "
        "is divided by their sum here, so that each estimate is pulled toward 0.",
    )


def _divided(trials: Trials) -> Claim:
    def lines(offset: str) -> list[Line]:
        settings = [one for one in trials.settings if one.endswith(f"offset {offset}")]
        return [line for method in SHRUNK for line in better(trials, IPWS, method, settings)]

    return Claim(
        "Self-normalized weights err less than weights that are shrunk and not divided",
        "suite `weighting`",
        {"value near 0": lines("0"), "value near 5": lines("5")},
        "Both forms have the same logs, except that 5 is added to all rewards. Self-normalized "
        "weighting moves with the rewards; an estimate that is pulled toward 0 does not.",
    )


def _rules(trials: Trials) -> Claim:
    theory = _sg("sg-ipw theory")
    rules = [_sg(f"sg-ipw {rule}", lambda_=rule) for rule in ("mse", "slope", "ocv")]
    clip = Method.of("ipw", "clip at root n", clip="root-n")
    clips = [Method.of("ipw", f"clip by {rule}", clip=rule) for rule in ("mse", "slope")]
    return Claim(
        "A parameter in closed form errs less than one that is chosen from the logs",
        "suite `weighting`; Cross-Validated Off-Policy Evaluation (Cief et al., 2025), whose mean "
        "ranks over 450 data sets put closed forms first",
        {
            "sg-ipw": [line for rule in rules for line in better(trials, theory, rule)],
            "clip": [line for rule in clips for line in better(trials, clip, rule)],
        },
        "The published figures are mean ranks over classification data sets, these are RMSEs.",
    )


def _control(trials: Trials) -> Claim:
    rivals = (
        Method.of("beta-ipw", "beta-ipw"),
        Method.of("el-ipw", "el-ipw, Cressie-Read"),
        Method.of("el-ipw", "el-ipw, likelihood", divergence="likelihood"),
    )
    return Claim(
        "Control variates of the weights err less than self-normalized weights",
        "suite `weighting`; Gupta et al. 2024 (beta-ipw), Karampatziakis et al. 2020 (el-ipw)",
        {method.name: better(trials, method, IPWS) for method in rivals},
        "All of them, like IPWS, move with a constant that is added to the rewards.",
    )


def _of(estimator: str, model: str) -> Method:
    params = MODELS[model]
    if estimator == "dm":
        params = {**params, "cross_fit": 5}
    return Method.of(estimator, f"{estimator}, {model}", **params)


def _doubly_robust(trials: Trials) -> Claim:
    def lines(model: str) -> list[Line]:
        direct = better(trials, _of("dr", model), _of("dm", model)) if model != "missing" else []
        return [*better(trials, _of("dr", model), IPWS), *direct]

    return Claim(
        "The doubly robust estimator errs less than the two that it combines",
        "suite `doubly-robust`; Dudik et al. 2014",
        {f"reward model {model}": lines(model) for model in MODELS},
        "Right is one line for each action, which contains the linear rewards and is near to "
        "those of 0 and 1; wrong is one line for all actions; missing is a constant. The rivals "
        "are self-normalized weighting and the direct method.",
    )


def _residual_weights(trials: Trials) -> Claim:
    names = ("switch-dr", "dr-os", "dr-ps", "sg-dr")
    return Claim(
        "Residual weights that are shrunk or cut err less than plain ones",
        "suite `doubly-robust`; Wang et al. 2017 (switch-dr), Su et al. 2020 (dr-os, dr-ps), "
        "Metelli et al. 2021 (sg-dr)",
        {
            f"reward model {model}": [
                line
                for name in names
                for line in better(trials, _of(name, model), _of("dr", model))
            ]
            for model in MODELS
        },
        "Parameters by each estimator's default rule. A good reward model leaves small residuals, "
        "which no weight makes large.",
    )


def _divided_residuals(trials: Trials) -> Claim:
    return Claim(
        "Residual weights that are divided by their sum err less than plain ones",
        "suite `doubly-robust`",
        {
            f"reward model {model}": [
                line
                for name in ("sndr", "tmle")
                for line in better(trials, _of(name, model), _of("dr", model))
            ]
            for model in MODELS
        },
        "sndr divides by the sum of the weights; tmle moves the reward model until the weighted "
        "residuals sum to 0.",
    )


def _more_robust(trials: Trials) -> Claim:
    return Claim(
        "A reward model fitted for the estimate's variance errs less than a least squares one",
        "suite `doubly-robust`; Farajtabar et al. 2018",
        {"reward model wrong": better(trials, _of("mrdr", "wrong"), _of("dr", "wrong"))},
        "For a right model the two have the same limit.",
    )


def _kernels_answer(trials: Trials) -> Claim:
    return Claim(
        "Kernels over actions answer where the target policy is deterministic",
        "suite `continuous`; Kallus and Zhou 2018",
        {
            "kernels": [
                line
                for method in (
                    Method.of("kernel-ipw", "kernel-ipw"),
                    Method.of("kernel-ipws", "kernel-ipws"),
                    _kernel_dr("quadratic"),
                )
                for line in never_fails(trials, method)
            ],
            "importance weighting": never_fails(trials, IPW),
        },
        "No logged action is the target's one, so that every importance weight is 0.",
    )


def _kernel_dr(regressor: str) -> Method:
    return Method.of("kernel-dr", f"kernel-dr, {regressor}", regressor=regressor)


def _kernel_with_model(trials: Trials) -> Claim:
    plain = Method.of("kernel-ipws", "kernel-ipws")
    direct = {
        name: Method.of("dm-star", f"dm-star, {name}", regressor=name)
        for name in ("quadratic", "ridge")
    }
    return Claim(
        "A kernel with a reward model errs less than either alone",
        "suite `continuous`; Kallus and Zhou 2018",
        {
            f"reward model {word}": [
                *better(trials, _kernel_dr(name), plain),
                *better(trials, _kernel_dr(name), direct[name]),
            ]
            for word, name in (("right", "quadratic"), ("wrong", "ridge"))
        },
        "`quadratic` contains the reward of this world, `ridge` is linear in context and action.",
    )


def _bandwidth(trials: Trials) -> Claim:
    slope = Method.of("kernel-ipw", "bandwidth by slope")
    others = (
        Method.of("kernel-ipw", "Silverman's", bandwidth="silverman"),
        Method.of("kernel-ipw", "1/8", bandwidth=0.125),
        Method.of("kernel-ipw", "1/2", bandwidth=0.5),
    )
    return Claim(
        "The rule slope errs less than a bandwidth that is fixed before",
        "suite `continuous`; Su, Srinath and Krishnamurthy 2020",
        {"kernel-ipw": [line for other in others for line in better(trials, slope, other)]},
        "Of a deterministic target the bias at width h is -h² here.",
    )
