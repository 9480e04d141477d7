"""Errors of released code on its own synthetic logs, for tables whose numbers are in figures only.

    PYTHONPATH=OBP PEER/bin/python results/performance/scripts/published_peers.py mips --logs 20
    PYTHONPATH=OBP:OFFCEM/src/synthetic \\
        PEER/bin/python results/performance/scripts/published_peers.py offcem

OBP is a checkout of st-tech/zr-obp at 721a3f3 (release 0.5.5), OFFCEM one of
usaito/icml2023-offcem at 100e325; the interpreter has numpy 1.26, scikit-learn 1.3 and, for
offcem, torch. Every log is a world of its own, and errors are those from the mean over its
contexts (its users, for offcem) of the target's expected reward. Prints a line for each setting
and estimator: mean square error, its standard error, logs.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np

Errors = dict[tuple[str, str], list[float]]


def mips_logs(logs: int) -> Iterator[tuple[str, str, float]]:
    """Yield setting, estimator and error of 200 actions, 5,000 rows and deficient support."""
    from obp.dataset import SyntheticBanditDatasetWithActionEmbeds, linear_reward_function

    for world in range(logs):
        for share in (0.0, 0.5, 0.9):
            data = SyntheticBanditDatasetWithActionEmbeds(
                n_actions=200,
                dim_context=10,
                beta=-1,
                reward_type="continuous",
                n_cat_per_dim=10,
                latent_param_mat_dim=5,
                n_cat_dim=3,
                n_deficient_actions=int(200 * share),
                reward_function=linear_reward_function,
                reward_std=2.5,
                random_state=world,
            ).obtain_batch_bandit_feedback(n_rounds=5000)
            q, logging = data["expected_reward"], data["pi_b"][:, :, 0]
            target = greedy(q, 0.05)
            reward, row = data["reward"], np.arange(5000)
            truth = (target * q).sum(axis=1).mean()
            weight = (target / np.where(logging > 0, logging, np.inf))[row, data["action"]]
            likely = np.ones((5000, 200))
            for d in range(3):
                likely *= data["p_e_a"][:, data["action_embed"][:, d], d].T
            by_embedding = (target * likely).sum(axis=1) / (logging * likely).sum(axis=1)
            where = f"deficient_share {share}"
            yield where, "IPS", float((weight * reward).mean() - truth)
            yield where, "MIPS (true)", float((by_embedding * reward).mean() - truth)


def offcem_logs(logs: int, n_actions: int = 200) -> Iterator[tuple[str, str, float]]:
    """Yield setting, estimator and error of figure 1 of OffCEM with its released estimators."""
    import dataset  # type: ignore[import-not-found]
    import ope  # type: ignore[import-not-found]
    from obp.dataset import linear_reward_function

    for world in range(logs):
        data = dataset.SyntheticBanditDataset(
            n_actions=n_actions,
            dim_context=10,
            beta=-0.1,
            reward_type="continuous",
            n_cat_per_dim=5,
            latent_param_mat_dim=5,
            n_cat_dim=10,
            n_deficient_actions=0,
            reward_function=linear_reward_function,
            reward_std=3.0,
            random_state=world,
        ).obtain_batch_bandit_feedback(n_rounds=3000, n_clusters=50)
        q = data["expected_reward"]
        target = greedy(q, 0.2)
        # The world's value: its users count alike, as they do in the world of `saito-offcem`.
        users = data["fixed_expected_rewards"]
        truth = (greedy(users, 0.2) * users).sum(axis=1).mean()
        f, one_stage = ope.train_reward_model_via_two_stage(
            data, data["clusters"], random_state=world
        )
        values: dict[str, Any] = ope.run_ope(
            bandit_data=data,
            pi_e=target[:, :, np.newaxis],
            action_clusters=data["clusters"],
            f_x_a=f,
            q_x_a=one_stage,
        )
        for name, value in values.items():
            yield f"n_actions {n_actions}", name, float(value - truth)


def greedy(reward: np.ndarray, epsilon: float) -> np.ndarray:
    """Return the epsilon-greedy policy of a table of rewards."""
    table = np.full_like(reward, epsilon / reward.shape[1])
    table[np.arange(len(reward)), reward.argmax(axis=1)] += 1 - epsilon
    return table


def main() -> int:
    """Run one of the peers."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("peer", choices=("mips", "offcem"))
    parser.add_argument("--logs", type=int, default=20)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    errors: Errors = defaultdict(list)
    for where, name, error in {"mips": mips_logs, "offcem": offcem_logs}[given.peer](given.logs):
        errors[where, name].append(error)
    for (where, name), each in errors.items():
        square = np.square(each)
        spread = square.std(ddof=1) / np.sqrt(len(square))
        sys.stdout.write(f"{where}\t{name}\t{square.mean():.5g}\t{spread:.3g}\t{len(square)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
