"""Published formulas and codes that are wrong, each computed where the right answer is known.

Everything is an expectation over a tiny environment, so that nothing is left to sampling: two
contexts of equal probability and three actions, with the policies and mean rewards of the golden
log. `DEFECTS` gives for each formula the identity that it fails, what the identity asks for and
what the formula gives. No estimator of the package computes them, but for the ``-paper`` ids.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from support.golden_log import LOGGING, REWARD_MODEL, TARGET

__all__ = ["DEFECTS", "VALUE", "Defect"]

P0, P1, Q = LOGGING, TARGET, REWARD_MODEL
X = np.array([0.5, 0.5])
W = P1 / P0


def mean(terms: np.ndarray) -> float:
    """Expectation over contexts of a sum over actions."""
    return float(X @ terms.sum(axis=1))


VALUE = mean(P1 * Q)


@dataclass(frozen=True)
class Defect:
    """One published formula.

    Parameters
    ----------
    what : the formula, and what is wrong with it.
    source : where it is published; of code, the repository.
    fixed : whether it is, by the commit that was read.
    identity : what a right formula satisfies.
    right, wrong : what the identity asks for, and what the formula gives.
    shown : where this repository shows it: a test, an id or a page.
    """

    what: str
    source: str
    identity: str
    right: Callable[[], float]
    wrong: Callable[[], float]
    shown: str
    fixed: str = ""


def printed_dm() -> float:
    """E π1(a|x) q(x, a) over logged actions, in place of the sum over actions."""
    return mean(P0 * P1 * Q)


def printed_edm() -> float:
    """The same with densities of embeddings, here one embedding for actions 0 and 1."""
    pool = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    return mean(P0 * (P1 @ pool) * Q)


def printed_pair_kernel() -> float:
    """The true ratio times a kernel between a logged and a target embedding, then normalized."""
    gap = np.arange(3)[:, None] - np.arange(3)
    near = P1 @ np.exp(-0.5 * gap**2)
    return mean(P0 * W * near * Q) / mean(P0 * W * near)


def tensor_without_context() -> float:
    """Exact weights given G⊗C with contexts coded 0 and 1: rows of context 0 look alike."""
    weight = np.vstack([np.ones(3), W[1]])
    return mean(P0 * weight * Q)


def cab(cut: float, *, swapped: bool) -> float:
    """Continuous adaptive blending with the true reward model; min and max exchanged or not."""
    kept = np.maximum(W, cut) if swapped else np.minimum(W, cut)
    return mean(P1 * Q * np.maximum(0.0, 1.0 - cut / W) + P0 * kept * Q)


MARGINAL = np.array([[0, 0], [1, 1], [1, 0]])
"""Two dimensions of an embedding that names the action."""


def mean_product_of_marginals() -> float:
    """Mean of the product over dimensions of the ratios of marginals; that of a ratio is 1."""
    weight = np.ones_like(W)
    for column in MARGINAL.T:
        same = (column[:, None] == column).astype(float)
        weight *= (P1 @ same) / (P0 @ same)
    return mean(P0 * weight)


def beta_ipw(fallback: bool) -> float:
    """β-IPS on three rows of weight one half, of an action that is rarer under the target."""
    w, r = np.full(3, 0.5), np.array([1.0, 0.0, 1.0])
    spread = float((w * w - w).mean())
    if fallback and spread <= 0:
        return float(w @ r / w.sum())
    beta = float(((w * w - w) * r).mean()) / max(spread, 1e-11)
    return beta + float((w * (r - beta)).mean())


def slope(*, reversed_ladder: bool) -> float:
    """Candidates 0 ± 1 and 5 ± 0.1: the narrow one disagrees with the wide one."""
    values, widths = np.array([0.0, 5.0]), np.array([1.0, 0.1])
    order = np.argsort(widths if reversed_ladder else -widths)
    kept = int(order[0])
    for k in order[1:]:
        if abs(values[k] - values[kept]) > widths[k] + (np.sqrt(6.0) - 1.0) * widths[kept]:
            break
        kept = int(k)
    return float(values[kept])


def chips(*, pooled: bool) -> float:
    """Weights of clusters times the rewards of the actions, or times the cluster's mean reward.

    Here every context is a cluster.
    """
    reward = np.broadcast_to((P0 * Q).sum(axis=1, keepdims=True), Q.shape) if pooled else Q
    return mean(P0 * W * reward)


def slots(*, summed: bool) -> float:
    """Mean reward of lists of one and of two items, all rewards 1, by the means of the slots."""
    means, share = np.ones(2), np.array([1.0, 0.5])
    return float(means.sum() if summed else share @ means)


def mean_square(*, variance_as_deviation: bool) -> float:
    """Weighted mean of x^2 of a standard normal logger, for the target N(.5, variance 1.9)."""
    x = np.linspace(-60.0, 60.0, 600_001)
    spread = 1.9 if variance_as_deviation else np.sqrt(1.9)

    def density(mean: float, deviation: float) -> np.ndarray:
        return np.exp(-0.5 * ((x - mean) / deviation) ** 2) / (deviation * np.sqrt(2 * np.pi))

    # The logger's density times the weight is the density that the weight takes for the target's.
    return float((density(0.5, float(spread)) * x**2).sum() * (x[1] - x[0]))


def resampled_model(*, by_label: bool) -> float:
    """Mean of a model that predicts the context 0, 1 or 5 over a resample: rows 2, 2 and 0."""
    context, drawn = np.array([0.0, 1.0, 5.0]), np.array([2, 2, 0])
    resample = context[drawn]
    return float(np.mean([resample[k] for k in (drawn if by_label else range(3))]))


PAPER = "Lee, Arbour and Theocharous 2022"
NO_ERRATUM = "no correction found of arXiv 2203.02807"

DEFECTS: tuple[Defect, ...] = (
    Defect(
        "DM weighs the logged action by π1 and does not sum over actions",
        f"{PAPER}, as printed",
        "with the true reward model, DM is the value",
        lambda: VALUE,
        printed_dm,
        "`dm-paper`, in `results/paper`",
        NO_ERRATUM,
    ),
    Defect(
        "EDM multiplies the logged row by the target's density of its embedding",
        f"{PAPER}, as printed",
        "with the true reward model, EDM is the value",
        lambda: VALUE,
        printed_edm,
        "`edm-paper`; tests/estimators/test_embedded_exact.py",
        NO_ERRATUM,
    ),
    Defect(
        "EPWS pairs a row with a random target row by a kernel, after weighting it",
        f"{PAPER}, as printed",
        "with the true ratio, EPWS tends to the value",
        lambda: VALUE,
        printed_pair_kernel,
        "`epws-paper`; tests/estimators/test_epw.py",
        NO_ERRATUM,
    ),
    Defect(
        "features G⊗C lose the embedding wherever the context is 0",
        f"{PAPER}, as printed",
        "a consistent classifier gives the value",
        lambda: VALUE,
        tensor_without_context,
        "`fepw-paper`; tests/estimators/test_density_ratio.py",
        NO_ERRATUM,
    ),
    Defect(
        "CAB with min and max exchanged",
        "github.com/navarog/cross-validated-ope, src/estimators/cab.py",
        "with the true reward model, CAB is the value for every cut",
        lambda: cab(2.0, swapped=False),
        lambda: cab(2.0, swapped=True),
        "tests/estimators/test_published_defects.py",
        "not at 638ed97, the newest that was read",
    ),
    Defect(
        "MIPS weights as a product of the ratios of single dimensions",
        "st-tech/zr-obp, obp/ope/estimators_embed.py; tatsu432/DR-estimator-OPE-large-action",
        "weights have mean 1",
        lambda: mean(P0 * W),
        mean_product_of_marginals,
        "tests/estimators/test_published_defects.py",
        "not at 8cbd5fa and 50bf4c0, the newest that were read",
    ),
    Defect(
        "β-IPS divides by a variance of weights that is cut at 1e-11 where it is negative",
        "shashankg7/recsys2024_optimal_baseline, obp/ope/estimators.py (Gupta et al. 2024)",
        "the estimate stays within the rewards where all weights are equal",
        lambda: beta_ipw(fallback=True),
        lambda: beta_ipw(fallback=False),
        "tests/estimators/test_control_variates.py",
        "not at 137cdbe2, the newest that was read",
    ),
    Defect(
        "SLOPE that walks from narrow to wide intervals",
        "github.com/tae73/ope-to-decision, first `slope_select`, as its docstring tells",
        "a candidate that disagrees with the widest interval is not chosen",
        lambda: slope(reversed_ladder=False),
        lambda: slope(reversed_ladder=True),
        "tests/estimators/test_tuning.py",
        "by its author, in 4abe299, its first commit",
    ),
    Defect(
        "CHIPS multiplies weights by the mean reward of the cluster over all actions",
        "code of Guzmán-Olivares et al. 2025 (Clustering context in off-policy evaluation), "
        "ope/estimators.py",
        "with every context a cluster, CHIPS is the value",
        lambda: chips(pooled=False),
        lambda: chips(pooled=True),
        "`chips`; tests/estimators/test_structure.py",
        "not in the copy that was read, which names no commit",
    ),
    Defect(
        "the self-normalized item-position model sums the means of slots that not all lists have",
        "amazon-science/music-off-policy-evaluation-benchmark, estimators",
        "with equal policies, it is the mean reward of a list",
        lambda: slots(summed=False),
        lambda: slots(summed=True),
        "`sn-ipm`; tests/estimators/test_ranking.py",
        "not at 079378a, the newest that was read",
    ),
    Defect(
        "subgaussian importance sampling: in the weights, the script takes the variance of a "
        "Gaussian policy for its deviation",
        "albertometelli/subgaussian-is, examples/off_evaluation_gaussian.py (Metelli et al. 2021)",
        "the weighted mean of x² is its mean under the target",
        lambda: mean_square(variance_as_deviation=False),
        lambda: mean_square(variance_as_deviation=True),
        "this page",
        "not at 0915561, the newest that was read",
    ),
    Defect(
        "every estimate is rounded to two decimals: rare clicks have the value 0",
        "banditml/offline-policy-evaluation (offline-evaluation 0.0.6), ope/utils/stats.py",
        "with equal policies, weighting gives the logged mean",
        lambda: 0.004,
        lambda: round(0.004, 2),
        "results/others, `OfflineIps`",
        "not in 0.0.6, the newest release",
    ),
    Defect(
        "the direct method's bootstrap takes contexts of the resample by places in the log",
        "banditml/offline-policy-evaluation (offline-evaluation 0.0.6), ope/methods",
        "over a resample, the direct method is the mean of its rows' predictions",
        lambda: resampled_model(by_label=False),
        lambda: resampled_model(by_label=True),
        "this page",
        "not in 0.0.6, the newest release",
    ),
)
