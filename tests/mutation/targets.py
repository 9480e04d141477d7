"""Which tests belong to which file, and which changes no test can notice."""

from __future__ import annotations

__all__ = ["CATALOGUE", "EQUIVALENT", "TARGETS"]

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

_TESTS = "tests/estimators"
_PACKAGE = "estimators/ope_estimators"
_GOLDEN = f"{_TESTS}/test_golden_log.py"
_DEFAULTS = "tests/bench/contracts/test_built_ins.py"

_FAMILIES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "baseline/weighting": (
        (_GOLDEN, f"{_TESTS}/test_weight_transforms.py", f"{_TESTS}/test_tuning.py", _DEFAULTS),
        (
            "beta_ipw",
            "clipped_weights",
            "el_ipw",
            "es_ipw",
            "ipw_re",
            "ix_ipw",
            "ls_ipw",
            "lse_ipw",
            "sg_ipw",
            "shrunk_weights",
            "transformed",
        ),
    ),
    "baseline/doubly_robust": (
        (
            _GOLDEN,
            f"{_TESTS}/test_doubly_robust.py",
            f"{_TESTS}/test_doubly_robust_properties.py",
            _DEFAULTS,
        ),
        (
            "blended",
            "cab",
            "dr_os",
            "dr_ps",
            "mrdr",
            "residual_weighted",
            "sg_dr",
            "sndr",
            "switch",
            "switch_dr",
            "tmle",
        ),
    ),
    "density_ratio": (
        (f"{_TESTS}/test_balancing.py", f"{_TESTS}/test_ratio_choice.py"),
        ("basis", "entropy", "kliep", "matching", "riesz", "sampled"),
    ),
    "embedded/balancing": (
        (f"{_TESTS}/test_balancing.py", f"{_TESTS}/test_ratio_choice.py"),
        ("balanced", "energy_balancing", "entropy_balancing", "kliep", "kmm", "riesz", "rulsif"),
    ),
    "structure": (
        (_GOLDEN, f"{_TESTS}/test_structure.py"),
        ("group_ipw", "learned_mips", "mdr", "mr", "offcem", "pc_ipw"),
    ),
    "nuisance": (
        (_GOLDEN, f"{_TESTS}/test_structure.py"),
        ("action_clusters", "action_smoothing"),
    ),
    "continuous": (
        (f"{_TESTS}/test_kernel_weighting.py",),
        ("kernel_dr", "kernel_ipw", "kernel_ipws", "kernel_weighted"),
    ),
    "selection": (
        (f"{_TESTS}/test_selection.py", f"{_TESTS}/test_tuning.py"),
        (
            "anchored",
            "bootstrap",
            "candidates",
            "first",
            "ocv",
            "opera",
            "select",
            "slope",
            "spread",
            "worlds",
        ),
    ),
    "tuning": (
        (f"{_TESTS}/test_selection.py", f"{_TESTS}/test_tuning.py"),
        ("cross_validation", "estimated_mse", "slope", "thresholds"),
    ),
}

CATALOGUE: dict[str, tuple[str, ...]] = {
    f"{_PACKAGE}/{folder}/{name}.py": tests
    for folder, (tests, names) in _FAMILIES.items()
    for name in names
}
"""Estimators of other papers, and the parts that only they use, with their tests."""

EQUIVALENT: dict[tuple[str, str], str] = {
    ("bench/ope_bench/statistics/bootstrap.py", "1e-12 -> 1.5e-12"): (
        "a guard against rounding: squares of equal errors differ by less than 1e-15"
    ),
    (f"{_PACKAGE}/selection/spread.py", "left.mean() -> left.sum()"): (
        "the other factor is centered, so that a constant added to this one changes nothing"
    ),
    (f"{_PACKAGE}/nuisance/action_smoothing.py", "1.0 -> 1.5"): (
        "any negative number is before all distances, and a factor of all S cancels in weights"
    ),
    (f"{_PACKAGE}/baseline/doubly_robust/tmle.py", "1e-14 -> 1.5e-14"): (
        "where the search stops, below the rounding of the score"
    ),
    (f"{_PACKAGE}/baseline/weighting/transformed.py", "0.0 -> 1.0"): (
        "instead of an error that is missing for one unit alone, where no rule is asked"
    ),
}
"""By file and change: why no test can notice it."""
