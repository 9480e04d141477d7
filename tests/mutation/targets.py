"""Which tests belong to which file, and which changes no test can notice."""

from __future__ import annotations

__all__ = ["EQUIVALENT", "TARGETS"]

_BRANCHES = "tests/estimators/test_branches.py"

TARGETS: dict[str, tuple[str, ...]] = {
    "estimators/ope_estimators/density_ratio/capacity.py": (_BRANCHES,),
    "estimators/ope_estimators/density_ratio/calibration.py": (
        _BRANCHES,
        "tests/estimators/test_calibration.py",
    ),
    "estimators/ope_estimators/density_ratio/smoothed.py": (
        _BRANCHES,
        "tests/estimators/test_density_ratio_kernels.py",
    ),
    "estimators/ope_estimators/density_ratio/log_odds.py": (_BRANCHES,),
    "estimators/ope_estimators/features/composition.py": (
        _BRANCHES,
        "tests/estimators/test_density_ratio.py",
    ),
    "estimators/ope_estimators/baseline/weighting/ipw_star.py": (
        _BRANCHES,
        "tests/estimators/test_baseline_samples_only.py",
    ),
    "bench/ope_bench/statistics/bootstrap.py": (
        "tests/bench/statistics/test_selection_bounds.py",
        "tests/bench/statistics/test_bootstrap.py",
    ),
    "bench/ope_bench/statistics/selection.py": (
        "tests/bench/statistics/test_selection_bounds.py",
        "tests/bench/statistics/test_summaries.py",
    ),
    "bench/ope_bench/contracts/view.py": ("tests/bench/contracts/test_view.py",),
    "bench/ope_bench/contracts/random/seeding.py": ("tests/bench/contracts/test_seeding.py",),
    "bench/ope_bench/gate/decision.py": ("tests/bench/gate/test_decision.py",),
    "bench/ope_bench/gate/screening.py": ("tests/bench/gate/test_decision.py",),
    "bench/ope_bench/execution/messages.py": ("tests/bench/execution/test_messages.py",),
}
"""Narrow tests of each file; they take seconds."""

EQUIVALENT: dict[tuple[str, str], str] = {
    ("bench/ope_bench/statistics/bootstrap.py", "1e-12 -> 1.5e-12"): (
        "a guard against rounding: squares of equal errors differ by less than 1e-15"
    ),
}
"""By file and change: why no test can notice it."""
