"""Questions that the paper leaves open, put as claims about the suites beyond it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from judging.claim import Claim
from judging.evidence import Line, beats_zero, better, slope
from judging.trials import Method, Trials

__all__ = ["questions"]

CLASSIFIERS = ("logistic", "gbm", "hist-gbm", "xgboost", "mlp")
COMPOSITIONS = ("concat", "tensor", "tensor-bias")
RAW = {"cross_fit": 2, "calibration": "none", "clip": None}
LONG = {"flow_params": {"epochs": 30, "learning_rate": 0.001, "max_steps": 8000}}


def questions(results: Path) -> list[Claim]:
    """All questions; errors against the expected value, as these suites have them.

    Parameters
    ----------
    results : the folder results/.
    """
    ablation = Trials(results / "ablation", "world", "expected", lambda name, _: name)
    ratios = [
        Trials(results / "density-ratio", "world", measure, _gaussians)
        for measure in ("target_log_ratio_rmse", "kl_error")
    ]
    large = Trials(results / "large-samples", "n_samples", "expected")
    worlds = Trials(results / "samples-only", "world", "expected", _world)
    behance = Trials(results / "behance", "target", "expected", _target)
    return [
        _flow_in_an_estimate(ablation),
        _flow_in_a_ratio(*ratios),
        _classifier(ablation),
        _kernel(ablation),
        _calibration(ablation),
        _cross_fit(ablation),
        _reward_model(worlds),
        _large(large),
        _targets(behance),
    ]


def _flow_in_an_estimate(trials: Trials) -> Claim:
    def lines(composition: str) -> list[Line]:
        return _crossed(
            trials,
            [
                (
                    _of("fepws", f"FEPWS {classifier}", classifier, composition=composition),
                    _of("epws", f"EPWS {classifier}", classifier, composition=composition),
                )
                for classifier in CLASSIFIERS
            ],
        )

    return Claim(
        "A flow in front of the classifier lowers the error of the estimate",
        "suite `ablation`",
        {composition: lines(composition) for composition in COMPOSITIONS},
        "Forms are the ways to join context and embedding. The flow is a masked autoregressive "
        "one; other families stand below, against the same classifier without a flow. It depends "
        "on the world. Every line that is decided on `gaussian` is for the flow, every one on "
        "`saito-toy` against it, and other families lean the same ways. Behind a tensor product "
        "without its bias it makes no difference that can be told. A hundred data sets at five "
        "numbers of actions say the same of `saito-toy`: [the paper's claim](paper/README.md).",
        aside=_crossed(
            trials,
            [
                (Method.of("fepws", "FEPWS nsf", flow="nsf"), Method.of("epws", "EPWS")),
                (Method.of("fepws", "FEPWS realnvp", flow="realnvp"), Method.of("epws", "EPWS")),
                (
                    Method.of("fepws", "FEPWS conditional", flow_params={"conditional": True}),
                    Method.of("epws", "EPWS"),
                ),
            ],
        ),
    )


def _flow_in_a_ratio(ratio: Trials, divergence: Trials) -> Claim:
    def lines(trials: Trials) -> list[Line]:
        return _crossed(
            trials,
            [
                (
                    Method.of("fepw", f"flow, {one}", classifier=one, **RAW, **LONG),
                    Method.of("epw", f"raw, {one}", classifier=one, **RAW),
                )
                for one in ("mlp", "logistic", "hist-gbm", "xgboost")
            ],
        )

    return Claim(
        "A flow in front of the classifier brings it closer to the true density ratio",
        "suite `density-ratio`",
        {"log-ratio, row by row": lines(ratio), "divergence": lines(divergence)},
        "Gaussian pairs with a known ratio. 'Row by row' is the error of log w over rows of the "
        "target sample; the divergence is the mean of log w there, which errors of both signs "
        "may leave right. Row by row no classifier gains by the flow: the linear and the neural "
        "one lose where there are a few dimensions, trees in ten. The linear one behind a flow "
        "comes close to the divergence in 40 dimensions and trees do in two, yet no row's ratio "
        "is better for it. In one dimension the flow maps a Gaussian to a Gaussian and changes "
        "nothing. A spline flow, below, is the only thing here that gains when the two are far "
        "apart.",
        aside=better(
            ratio,
            Method.of(
                "fepw",
                "spline flow, mlp",
                flow="nsf",
                classifier="mlp",
                **RAW,
                flow_params={"transforms": 3, "max_steps": 4000},
            ),
            Method.of("epw", "raw, mlp", classifier="mlp", **RAW),
            [world for world in ratio.settings if "40" not in world],
        ),
    )


def _classifier(trials: Trials) -> Claim:
    rivals = ("logistic", "gbm", "xgboost", "mlp")
    default = Method.of("epws", "EPWS hist-gbm")
    return Claim(
        "The default classifier, histogram gradient boosting, errs less than the others",
        "suite `ablation`",
        {"EPWS": _crossed(trials, [(default, _of("epws", one, one)) for one in rivals])},
        "Than the linear one, where the log-ratio bends (`saito-toy`). Nothing tells the others "
        "from it.",
    )


def _kernel(trials: Trials) -> Claim:
    plain = Method.of("epws", "EPWS")

    def lines(**params: Any) -> list[Line]:
        names = {
            f"{kernel}, {bandwidth}": {"kernel": kernel, "bandwidth": bandwidth, **params}
            for kernel, bandwidth in itertools.product(
                ("rbf", "epanechnikov") if not params else ("rbf",), ("median", "silverman")
            )
        }
        return _crossed(trials, [(Method.of("epws", n, **p), plain) for n, p in names.items()])

    many = Method.of("epws", "rbf, median, 20 draws", kernel="rbf", target_draws=20)
    return Claim(
        "A kernel on the embeddings lowers the error of EPWS",
        "suite `ablation`",
        {
            "as printed": [*lines(), *_crossed(trials, [(many, plain)])],
            "smoothed densities instead of a classifier": lines(kernel_form="ek-is"),
        },
        "The printed kernel weighs towards the target policy a second time; a wide bandwidth "
        "hides that, no bandwidth mends it. No line is for a kernel, most figures are far "
        "against it.",
    )


def _calibration(trials: Trials) -> Claim:
    pairs = [
        (
            _of("epws", f"{classifier}, temperature", classifier),
            _of("epws", f"{classifier}, {other}", classifier, calibration=other),
        )
        for classifier in ("gbm", "hist-gbm", "mlp")
        for other in ("none", "platt", "isotonic")
    ]
    return Claim(
        "Calibration by a temperature errs less than none, Platt's, and isotonic",
        "suite `ablation`",
        {"EPWS": _crossed(trials, pairs)},
        "Raw scores are worse where a line decides; no figure is for them by more than chance. "
        "Nothing tells a temperature from Platt's map, which has one parameter more.",
    )


def _cross_fit(trials: Trials) -> Claim:
    pairs = [
        (
            _of("epws", f"{one}, cross-fitted", one, calibration="none"),
            _of("epws", f"{one}, in sample", one, calibration="none", cross_fit=0),
        )
        for one in ("gbm", "hist-gbm")
    ]
    return Claim(
        "Cross-fitting the classifier lowers the error",
        "suite `ablation`",
        {"EPWS": _crossed(trials, pairs)},
        "In the sample that it was fitted on a classifier separates too well, and its weights "
        "are too extreme; but it has all rows to learn from. Sixty data sets do not decide "
        "between the two.",
    )


def _reward_model(trials: Trials) -> Claim:
    edr = Method.of("edr", "EDR")
    rivals = [
        Method.of("epws", "EPWS"),
        Method.of("fepws", "FEPWS"),
        Method.of("epws-paper", "EPWS as printed"),
        Method.of("edm-star", "EDM*"),
        Method.of("dm-star", "DM*"),
        Method.of("logging-average", "logging average"),
    ]
    return Claim(
        "With samples only, EDR (a reward model mended by estimated weights) does best",
        "suite `samples-only`",
        {
            world: [line for rival in rivals for line in better(trials, edr, rival, [world])]
            for world in trials.settings
        },
        "EDR is not the paper's: it joins EPW's weights with a regression of rewards on "
        "embeddings. Worlds other than `saito-toy` played no part in choosing its defaults. Forms "
        "are the worlds. Nobody is best on all of them; EDR and FEDR are never far from the best, "
        "which no other method here can say.",
        aside=_crossed(trials, [(Method.of("fedr", "FEDR"), edr)]),
    )


def _large(trials: Trials) -> Claim:
    methods = [
        Method.of("epws", "EPWS"),
        Method.of("epws", "EPWS logistic", classifier="logistic"),
        Method.of("fepws", "FEPWS"),
        Method.of("edr", "EDR", regressor="hist-gbm"),
        Method.of("edm-star", "EDM*", regressor="hist-gbm"),
    ]
    return Claim(
        "Estimators from samples only keep improving with rows",
        "suite `large-samples`",
        {"corrected": [slope(trials, method, falls=True) for method in methods]},
        "d log RMSE / d log N; -0.5 is what a mean of independent terms does.",
        "large-samples/figures/sweep-log10-rmse-saito-toy-by-n-samples.svg",
        [slope(trials, Method.of("epws", "EPWS rbf", kernel="rbf"), falls=True)],
    )


def _targets(trials: Trials) -> Claim:
    def lines(*methods: Method) -> list[Line]:
        return [beats_zero(trials, one, target) for one in methods for target in trials.settings]

    epws = Method.of("epws", "EPWS")
    return Claim(
        "On Behance, an estimator errs at most half as much as the answer zero",
        "suite `behance`, surrogate data",
        {
            "with propensities or policies": lines(
                Method.of("ipws", "IPWS"),
                Method.of("eipw", "EIPW"),
                Method.of("dm", "DM on embeddings", action_features="embedding"),
            ),
            "from samples only": lines(
                epws, Method.of("epws-paper", "EPWS as printed"), Method.of("edm-star", "EDM*")
            ),
        },
        "Targets from what the log says nothing about, greedy ones, to what it covers. Where it "
        "covers the target, self-normalised weights from propensities come close; embeddings "
        "of the surrogate say little about which items a policy prefers, so that methods with "
        "nothing else stay near the mean of the log, the popularity targets excepted. Whether "
        "Behance's own features say more cannot be told without them.",
        aside=better(trials, epws, Method.of("logging-average", "logging average")),
    )


def _of(estimator: str, name: str, classifier: str, **params: Any) -> Method:
    return Method.of(estimator, name, classifier=classifier, **params)


def _crossed(trials: Trials, pairs: Sequence[tuple[Method, Method]]) -> list[Line]:
    return [line for one, other in pairs for line in better(trials, one, other)]


def _gaussians(_: str, params: dict[str, Any]) -> str:
    if params["dimension"] > 1:
        return f"{params['dimension']:2d} dimensions"
    distance = abs(params["target_mean"] - params["logging_mean"])
    return f"1 dimension, means {distance:g} apart"


def _target(_: str, params: dict[str, Any]) -> str:
    return {
        "epsilon-greedy": f"greedy, epsilon {params['epsilon']:g}",
        "top-k": f"top {params['top_k']:6,}",
        "popularity": f"popularity, beta {params['target_beta']:g}",
    }[params["target"]]


def _world(name: str, params: dict[str, Any]) -> str:
    return f"{name} {params['dataset']}" if name == "multiclass" else name
