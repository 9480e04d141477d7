"""Changes that once survived, by what the code says, so that they can be tried again for ever."""

from __future__ import annotations

from dataclasses import dataclass

from mutation.targets import BENCH, PACKAGE

__all__ = ["PINNED", "Pinned"]


@dataclass(frozen=True)
class Pinned:
    """A change of a file's text.

    Parameters
    ----------
    path : of the file.
    before : text that the file has once.
    after : what it becomes.
    """

    path: str
    before: str
    after: str


_EMBEDDED = f"{PACKAGE}/embedded"
_RATIO = f"{PACKAGE}/density_ratio"
_WEIGHTING = f"{PACKAGE}/actions/weighting"

PINNED = (
    Pinned(
        f"{_EMBEDDED}/learned/second_models.py",
        "residual - correction if self_normalized else residual",
        "residual - correction",
    ),
    Pinned(
        f"{PACKAGE}/nuisance/reward.py",
        "len(self._models) == 1 or (self._target_fold < 0).all()",
        "True",
    ),
    Pinned(f"{_WEIGHTING}/weighted_mean.py", "if view.shared_contexts:", "if False:"),
    Pinned(f"{_EMBEDDED}/known/edm.py", "2**63", "2 * 63"),
    Pinned(f"{_RATIO}/capacity.py", "4 if rows <= 4_000 else 5", "4"),
    Pinned(f"{_RATIO}/smoothed.py", "if not coded.shape[1]:", "if False:"),
    Pinned(f"{_RATIO}/smoothed.py", "len(column.categories) - 1", "len(column.categories) + 1"),
    Pinned(f"{_RATIO}/calibration.py", 'kind == "none" or len', "len"),
    Pinned(
        f"{_RATIO}/calibration.py",
        'if kind == "none":\n        return score',
        "if False:\n        return score",
    ),
    Pinned(f"{_RATIO}/log_odds.py", 'hasattr(model, "decision_function")', "False"),
    Pinned(
        f"{PACKAGE}/features/composition.py",
        "(target != logged[0]).any(axis=0)",
        "(target != logged[0]).all(axis=0)",
    ),
    Pinned(
        f"{PACKAGE}/features/composition.py",
        "(logged != logged[0]).any(axis=0)",
        "(logged != logged[0]).all(axis=0)",
    ),
    Pinned(f"{_WEIGHTING}/ipw_star.py", "where=logging > 0", "where=logging >= 0"),
    Pinned(f"{_WEIGHTING}/weighted_mean.py", "view.n_actions is None or not", "not"),
    Pinned(f"{_EMBEDDED}/learned/ratio_based.py", "clip: Clip = 1e3", "clip: Clip = 1500.0"),
    Pinned(
        f"{BENCH}/contracts/view.py",
        "self._shared.cpu_seconds += reused.cpu_seconds",
        "pass",
    ),
    Pinned(
        f"{BENCH}/contracts/view.py",
        "self._shared.wall_seconds += reused.wall_seconds",
        "pass",
    ),
    Pinned(f"{BENCH}/contracts/view.py", "cpu_seconds: float = 0.0", "cpu_seconds: float = 0.1"),
    Pinned(
        f"{BENCH}/gate/baseline.py",
        "first = records[0].trial\n        environment",
        "first = records[1].trial\n        environment",
    ),
    Pinned(
        f"{BENCH}/gate/verdict.py",
        "adjusted.get(test, 1.0) <= rules.level",
        "adjusted.get(test, 1.0) < rules.level",
    ),
    Pinned(
        f"{BENCH}/statistics/paired_tests.py",
        "stdtrit(n - 1, 1 - level)",
        "stdtrit(n - 2, 1 - level)",
    ),
    Pinned(
        f"{BENCH}/statistics/error_distribution.py", "ordered.shape[1] + 1", "ordered.shape[1] + 2"
    ),
    Pinned(f"{BENCH}/statistics/ranks.py", "if spread > 0 else", "if spread > 1 else"),
    Pinned(
        f"{BENCH}/base/canonical.py",
        '"params": value.get_params(deep=False)',
        '"params": value.get_params(deep=True)',
    ),
    Pinned(f"{BENCH}/plugins/spec.py", "get_params(deep=False)", "get_params(deep=True)"),
)
"""The survivors that an audit listed, at where their code is now."""
