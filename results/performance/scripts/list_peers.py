"""Estimators of lists beside those of the Open Bandit Pipeline, on the same arrays.

``python results/performance/scripts/list_peers.py [FOLDER]`` prints both values of each, as
results/ranking/peers.md has them, with weights of a checkout of the Music benchmark's code beside
ours. It needs obp in an environment of its own: sb-obp==0.5.10 pandas==2.2.3 tqdm.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

from ope_bench import Access, View
from ope_bench.contracts.random import DataSeed
from ope_bench.contracts.view import FitCache
from ope_environments.music_lists.environment import MusicLists
from ope_environments.ranking.environment import Ranking
from ope_estimators.ranking.cascade_dr import CascadeDR
from ope_estimators.ranking.iips import IIPS
from ope_estimators.ranking.interpol import Interpol
from ope_estimators.ranking.pbm_ipw import PBMIPW
from ope_estimators.ranking.rips import RIPS
from ope_estimators.ranking.sips import SIPS
from ope_estimators.ranking.sn_ipm import SNIPM

sys.path.insert(0, str(Path(__file__).parents[3] / "tests"))
from support.music_files import write_lists

LENGTH, ITEMS = 3, 6


def pairs() -> dict[str, tuple[float, float]]:
    """Our value and theirs per row, for each estimator that both have."""
    from obp.ope import estimators_slate as slate

    names = ("world_rng", "logged_rng", "target_rng")
    streams = {name: np.random.default_rng(k) for k, name in enumerate(names)}
    made = Ranking(n_samples=1500, length=LENGTH, n_actions=ITEMS, clicks="cascade")
    log, _ = made.sample(**streams)
    lists = {"slate_id": log.unit, "reward": log.reward, "position": log.slot}

    def ours(estimator):
        seed = DataSeed("peers", 0, 0)
        view = View(log, estimator.access, seed=seed, fit_cache=FitCache())
        estimator.fit(view, rng=np.random.default_rng(0), device="cpu")
        return estimator.estimate(view).value

    def theirs(estimator, kind, chance):
        names = {"pscore": "pscore", "item": "pscore_item_position", "prefix": "pscore_cascade"}
        given = {names[kind]: chance[:, 0], f"evaluation_policy_{names[kind]}": chance[:, 1]}
        return estimator.estimate_policy_value(**lists, **given) / LENGTH

    target = log.target_policy.probability(log.context, log.action)
    item = np.stack([log.propensity, target], axis=1)
    found = {
        "sips": (
            ours(SIPS()),
            theirs(slate.SlateStandardIPS(len_list=LENGTH), "pscore", log.joint_propensity),
        ),
        "iips": (ours(IIPS()), theirs(slate.SlateIndependentIPS(len_list=LENGTH), "item", item)),
        "rips": (
            ours(RIPS()),
            theirs(
                slate.SlateRewardInteractionIPS(len_list=LENGTH), "prefix", log.prefix_propensity
            ),
        ),
        "sips normalize=true": (
            ours(SIPS(normalize=True)),
            theirs(
                slate.SelfNormalizedSlateStandardIPS(len_list=LENGTH),
                "pscore",
                log.joint_propensity,
            ),
        ),
        "sn-ipm": (
            ours(SNIPM()),
            theirs(slate.SelfNormalizedSlateIndependentIPS(len_list=LENGTH), "item", item),
        ),
    }
    # A constant for what a list still earns, in the place of both models.
    later = np.array([0.9, 0.6, 0.3])[log.slot]
    q = np.repeat(later[:, None], ITEMS, axis=1)
    view = View(log, Access.TARGET_POLICY, seed=DataSeed("peers", 0, 0), fit_cache=FitCache())
    chance = CascadeDR()._conditional(view, log.target_policy, log.slot)
    doubly = slate.SlateCascadeDoublyRobust(len_list=LENGTH, n_unique_action=ITEMS)
    value = doubly.estimate_policy_value(
        **lists,
        action=log.action,
        pscore_cascade=log.prefix_propensity[:, 0],
        evaluation_policy_pscore_cascade=log.prefix_propensity[:, 1],
        q_hat=q.reshape(-1),
        evaluation_policy_action_dist=chance.reshape(-1),
    )
    own = CascadeDR()
    seed = DataSeed("peers", 0, 0)
    view = View(log, own.access, seed=seed, fit_cache=FitCache())
    own.single_ = None
    own.weight_ = log.prefix_propensity[:, 1] / log.prefix_propensity[:, 0]
    own.logged_, own.expected_ = later, (chance * q).sum(axis=1)
    found["cascade-dr"] = (own.estimate(view).value, value / LENGTH)
    return found


def amazon_differences(folder: str) -> dict[str, float]:
    """Largest difference of weights from those of the Music benchmark's code.

    Parameters
    ----------
    folder : a checkout of github.com/amazon-science/music-off-policy-evaluation-benchmark.
    """
    import pyarrow.dataset as ds

    sys.path.insert(0, folder)
    from data.batch import DataBatch  # type: ignore[import-not-found]
    from estimators.interpol import INTERPOL  # type: ignore[import-not-found]
    from estimators.ipm import IPM  # type: ignore[import-not-found]
    from estimators.pbm import PBM, PBMType  # type: ignore[import-not-found]

    bias = 1.0 / np.arange(1, 51)
    theirs = {
        "iips": (IIPS(), IPM()),
        "interpol window=0": (Interpol(window=0), INTERPOL(window_size=0, position_bias=bias)),
        "interpol window=1": (Interpol(window=1), INTERPOL(window_size=1, position_bias=bias)),
        "interpol window=2": (Interpol(window=2), INTERPOL(window_size=2, position_bias=bias)),
        "pbm-ipw": (PBMIPW(), PBM(type=PBMType.STOCHASTIC, position_bias=bias)),
    }
    names = ("world_rng", "logged_rng", "target_rng")
    streams = {name: np.random.default_rng(k) for k, name in enumerate(names)}
    with tempfile.TemporaryDirectory() as lists:
        write_lists(lists, 500)
        log, _ = MusicLists(n_samples=2000, folder=lists, target_folder=lists).sample(**streams)
        record = next(iter(ds.dataset(lists, format="parquet").to_batches()))
    batch, number = DataBatch.from_record(record), log.context[:, 0].astype(int)
    found = {}
    for name, (own, other) in theirs.items():
        seed = DataSeed("peers", 0, 0)
        view = View(log, own.access, seed=seed, fit_cache=FitCache())
        weight = other.compute_ips_weights(batch)[number, log.slot]
        found[name] = float(np.abs(own.estimate(view).weights - weight).max())
    return found


def main() -> None:
    """Print the tables."""
    from importlib.metadata import version

    print("# Values of lists beside those of the Open Bandit Pipeline\n")
    command = "python results/performance/scripts/list_peers.py > results/ranking/peers.md"
    print(f"Made by `{command}` with")
    print(
        f"sb-obp {version('sb-obp')}: 500 lists of `ranking[length=3,n_actions=6,clicks=cascade]`,"
    )
    print("values per row; `tests/estimators/test_list_peers.py` asks for 1e-12.\n")
    print("| estimator | ope-bench | Open Bandit Pipeline | difference |")
    print("|---|---:|---:|---:|")
    for name, (own, other) in pairs().items():
        print(f"| `{name}` | {own:.12f} | {other:.12f} | {abs(own - other):.0e} |")
    if len(sys.argv) > 1:
        print(
            "\nWeights of 2,000 rows of `music-lists` on generated files, beside those of the code"
        )
        print(
            "of github.com/amazon-science/music-off-policy-evaluation-benchmark, whose checkout is"
        )
        print("the script's argument; it is no package:\n")
        print("| estimator | largest difference |")
        print("|---|---:|")
        for name, difference in amazon_differences(sys.argv[1]).items():
            print(f"| `{name}` | {difference:.0e} |")


if __name__ == "__main__":
    main()
