"""Which tests belong to which file, and which changes no test can notice."""

from __future__ import annotations

__all__ = ["BENCH", "CATALOGUE", "EQUIVALENT", "PACKAGE", "TARGETS"]

_BRANCHES = "tests/estimators/test_branches.py"
_DEFAULTS = "tests/bench/contracts/test_built_ins.py"
_RATIO_CHOICE = "tests/estimators/test_ratio_choice.py"


def _without(path: str, *names: str) -> tuple[str, ...]:
    """A file of tests and the options that leave its slow ones out."""
    return (path, *(f"--deselect={path}::{name}" for name in names))


BENCH = "bench/ope_bench"
_WORLDS = "environments/ope_environments"
PACKAGE = "estimators/ope_estimators"
_EDR = _without(
    "tests/estimators/test_edr.py",
    "test_its_intervals_cover_the_value_and_are_as_wide_as_its_errors",
)
_INTERVALS = ("tests/bench/statistics/test_value_intervals.py",)
_VERDICT = "tests/bench/logs/test_verdict.py"
_GATE = ("tests/bench/gate/test_screening.py", "tests/bench/gate/test_decision.py")
_POLICIES = "tests/environments/test_small_policies.py"
_ADVISE = "tests/bench/logs/test_advise.py"

TARGETS: dict[str, tuple[str, ...]] = {
    f"{PACKAGE}/density_ratio/capacity.py": (_BRANCHES,),
    f"{PACKAGE}/density_ratio/calibration.py": (
        _BRANCHES,
        "tests/estimators/test_calibration.py",
    ),
    f"{PACKAGE}/density_ratio/smoothed.py": (
        _BRANCHES,
        "tests/estimators/test_density_ratio_kernels.py",
    ),
    f"{PACKAGE}/density_ratio/log_odds.py": (_BRANCHES,),
    f"{PACKAGE}/features/composition.py": (
        _BRANCHES,
        "tests/estimators/test_density_ratio.py",
    ),
    f"{PACKAGE}/features/actions.py": (
        "tests/estimators/test_nuisance_models.py",
        "tests/estimators/test_sums_over_actions.py",
    ),
    f"{PACKAGE}/nuisance/embedding_weights.py": ("tests/estimators/test_embedding_weights.py",),
    f"{PACKAGE}/nuisance/reward.py": (
        "tests/estimators/test_nuisance_models.py",
        "tests/estimators/test_nuisance_learners.py",
        "tests/estimators/test_bounded_terms.py",
        "tests/estimators/test_sums_over_actions.py",
        *_EDR,
    ),
    f"{PACKAGE}/actions/weighting/ipw_star.py": (
        _BRANCHES,
        _DEFAULTS,
        "tests/estimators/test_actions_samples_only.py",
    ),
    f"{PACKAGE}/actions/weighting/weighted_mean.py": (
        *_EDR,
        "tests/estimators/test_actions_weighting.py",
        "tests/estimators/test_row_weights.py",
        "tests/estimators/test_units.py",
    ),
    f"{PACKAGE}/embedded/known/edm.py": (
        _BRANCHES,
        _DEFAULTS,
        "tests/estimators/test_embedded_exact.py",
    ),
    f"{PACKAGE}/embedded/learned/edr.py": (
        *_EDR,
        _DEFAULTS,
        f"{_RATIO_CHOICE}::test_the_doubly_robust_form_weighs_its_residuals_with_them",
    ),
    f"{PACKAGE}/embedded/learned/second_models.py": _EDR,
    f"{PACKAGE}/embedded/learned/fedr.py": (*_EDR, _DEFAULTS),
    f"{PACKAGE}/embedded/learned/ratio_based.py": (
        _DEFAULTS,
        f"{_RATIO_CHOICE}::test_only_what_is_fitted_is_required",
        "tests/estimators/test_fepw.py",
        "tests/estimators/test_epw.py",
    ),
    f"{_WORLDS}/randomized/policies.py": (_POLICIES, "tests/environments/test_randomized.py"),
    f"{_WORLDS}/behance/policies.py": (
        _POLICIES,
        "tests/environments/test_behance_environment.py",
    ),
    f"{_WORLDS}/populations/blend.py": (
        _POLICIES,
        "tests/environments/test_log_makers.py",
        "tests/environments/test_randomized.py",
    ),
    f"{_WORLDS}/saito/deficient_softmax.py": (
        _POLICIES,
        "tests/environments/test_saito_mips.py",
    ),
    f"{BENCH}/contracts/view.py": (
        "tests/bench/contracts/test_view.py",
        "tests/bench/contracts/test_view_parts.py",
    ),
    f"{BENCH}/contracts/policies.py": ("tests/bench/contracts/test_policies.py",),
    f"{BENCH}/contracts/embeddings.py": ("tests/bench/contracts/test_embeddings.py",),
    f"{BENCH}/contracts/random.py": ("tests/bench/contracts/test_seeding.py",),
    f"{BENCH}/base/canonical.py": (
        "tests/bench/base/test_canonical.py",
        "tests/bench/contracts/test_parameters.py",
    ),
    f"{BENCH}/plugins/spec.py": (
        "tests/bench/plugins/test_registry.py",
        "tests/bench/plugins/test_code_digest.py",
        "tests/bench/plugins/test_labels.py",
        "tests/bench/plugins/test_added_parameters.py",
        "tests/bench/contracts/test_parameters.py",
    ),
    f"{BENCH}/statistics/error_distribution.py": (
        "tests/bench/statistics/test_selection_bounds.py",
        "tests/bench/statistics/test_bootstrap.py",
        "tests/bench/statistics/test_summaries.py",
        "tests/bench/statistics/test_tails.py",
        "tests/bench/boards/test_aggregation.py",
    ),
    f"{BENCH}/statistics/ranks.py": (
        "tests/bench/statistics/test_selection_bounds.py",
        "tests/bench/statistics/test_summaries.py",
        "tests/bench/statistics/test_ranks.py",
    ),
    f"{BENCH}/statistics/paired_tests.py": (
        "tests/bench/statistics/test_paired.py",
        "tests/bench/statistics/test_typical.py",
        "tests/bench/statistics/test_array_cache.py",
    ),
    f"{BENCH}/statistics/value_intervals.py": _INTERVALS,
    f"{BENCH}/statistics/weight_checks.py": (
        *_INTERVALS,
        "tests/bench/statistics/test_unit_bootstrap.py",
        "tests/bench/statistics/test_weight_warnings.py",
    ),
    f"{BENCH}/gate/verdict.py": _GATE,
    f"{BENCH}/gate/baseline.py": (
        "tests/bench/gate/test_baseline.py",
        "tests/bench/gate/test_pairing.py",
        "tests/bench/gate/test_session.py",
        "tests/bench/gate/test_decision.py",
    ),
    f"{BENCH}/execution/worker_process.py": (
        "tests/bench/execution/test_messages.py",
        "tests/bench/execution/test_hostile_worker.py",
        "tests/bench/execution/test_prefetch.py",
    ),
    f"{BENCH}/logs/advice_verdict.py": (
        _VERDICT,
        f"{_ADVISE}::test_the_verdict_follows_its_rules",
        f"{_ADVISE}::test_only_what_the_log_gives_is_asked_for",
        f"{_ADVISE}::test_figures_over_worlds_are_those_by_hand",
        f"{_ADVISE}::test_evidence_is_that_of_trials_on_the_worlds",
        f"{_ADVISE}::test_the_error_of_an_estimated_truth_adds_to_every_error",
    ),
    f"{BENCH}/logs/advice_worlds.py": (
        "tests/bench/logs/test_likeness.py",
        f"{_ADVISE}::test_worlds_are_told_from_the_log_by_what_was_changed",
    ),
    f"{BENCH}/logs/checks.py": (
        "tests/bench/logs/test_reliability.py",
        "tests/bench/logs/test_checks.py",
    ),
    f"{BENCH}/logs/estimation.py": (
        "tests/bench/logs/test_intervals.py",
        "tests/bench/logs/test_estimation.py",
    ),
    f"{BENCH}/store/maintenance.py": ("tests/bench/store/test_integrity.py",),
    f"{BENCH}/store/reader.py": (
        "tests/bench/store/test_store.py",
        "tests/bench/store/test_selection.py",
    ),
}
"""Narrow tests of each file; they take seconds."""

_TESTS = "tests/estimators"
_GOLDEN = f"{_TESTS}/test_golden_log.py"

_FAMILIES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "actions/weighting": (
        (_GOLDEN, f"{_TESTS}/test_weight_transforms.py", f"{_TESTS}/test_tuning.py", _DEFAULTS),
        (
            "beta_ipw",
            "el_ipw",
            "es_ipw",
            "ipw",
            "ipw_re",
            "ix_ipw",
            "ls_ipw",
            "lse_ipw",
            "sg_ipw",
        ),
    ),
    "actions/doubly_robust": (
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
            "candidates",
            "first",
            "ocv",
            "select",
            "slope",
            "spread",
        ),
    ),
    "tuning": (
        (f"{_TESTS}/test_selection.py", f"{_TESTS}/test_tuning.py"),
        ("cross_validation", "estimated_mse", "slope", "thresholds"),
    ),
}

CATALOGUE: dict[str, tuple[str, ...]] = {
    f"{PACKAGE}/{folder}/{name}.py": tests
    for folder, (tests, names) in _FAMILIES.items()
    for name in names
}
"""Estimators of other papers, and the parts that only they use, with their tests."""

EQUIVALENT: dict[tuple[str, str, str], str] = {
    (
        f"{PACKAGE}/density_ratio/calibration.py",
        "> now + slack",
        (
            "(after := loss(slope - step)) > now + slack -> "
            "(after := loss(slope - step)) >= now + slack"
        ),
    ): "two rounded sums that are equal to the last bit; a shorter step ends at the same place",
    (f"{PACKAGE}/density_ratio/smoothed.py", "", "if not coded.shape[1]: -> if False:"): (
        "without columns all that follows leaves the empty table as it is"
    ),
    (f"{PACKAGE}/features/actions.py", "np.full(self._n_columns + 1", "1 -> 2"): (
        "a number more than there are, which no action has"
    ),
    (f"{PACKAGE}/nuisance/embedding_weights.py", "reshape(-1)", "1 -> 2"): (
        "the size that NumPy computes: it takes any negative number for it"
    ),
    (
        f"{PACKAGE}/nuisance/reward.py",
        "zip(self._models, self._linear, strict=",
        "True -> False",
    ): ("there is one entry for each model in both"),
    (f"{PACKAGE}/embedded/learned/fedr.py", "epochs", "2 -> 3"): (
        "epochs of the checks that every plugin passes, few so that they are quick"
    ),
    (f"{PACKAGE}/selection/spread.py", "", "left.mean() -> left.sum()"): (
        "the other factor is centered, so that a constant added to this one changes nothing"
    ),
    (f"{PACKAGE}/nuisance/action_smoothing.py", "", "1.0 -> 1.5"): (
        "any negative number is before all distances, and a factor of all S cancels in weights"
    ),
    (f"{PACKAGE}/actions/doubly_robust/tmle.py", "", "1e-14 -> 1.5e-14"): (
        "where the search stops, below the rounding of the score"
    ),
    (f"{PACKAGE}/actions/weighting/ipw.py", "", "0.0 -> 1.0"): (
        "instead of an error that is missing for one unit alone, where no rule is asked"
    ),
    (f"{BENCH}/contracts/embeddings.py", "self._spare", "size // 4 -> size * 4"): (
        "how many rows are multiplied at once, which changes no product"
    ),
    (f"{BENCH}/contracts/view.py", "covariant", "True -> False"): (
        "for type checkers, which notice it; nothing when the program runs"
    ),
    (f"{BENCH}/statistics/error_distribution.py", "squared.max(axis=1)", "1e-12 -> 1.5e-12"): (
        "a guard against rounding: squares of equal errors differ by less than 1e-15"
    ),
    (f"{BENCH}/statistics/error_distribution.py", "n = tables[0]", "0 -> 1"): (
        "both tables have the same shape"
    ),
    (f"{BENCH}/statistics/value_intervals.py", "CHUNK", "12 -> 13"): (
        "rows at a time, whose sums are added up"
    ),
    (f"{BENCH}/statistics/ranks.py", "adopted = known &", "-np.inf -> np.inf"): (
        "of policies without an estimate, which the other factor leaves out"
    ),
    (
        f"{BENCH}/statistics/value_intervals.py",
        "low = high - step",
        "high - step -> high + step",
    ): ("where the search for the end begins: a step more to the same end"),
    (f"{BENCH}/statistics/value_intervals.py", "BLOCK, -1", "1 -> 2"): (
        "the size that NumPy computes: it takes any negative number for it"
    ),
    (f"{BENCH}/execution/worker_process.py", "BUFFER_BYTES", "1 -> 2"): (
        "how much is read in one turn, which changes nothing of what is read"
    ),
    (
        f"{BENCH}/logs/advice_verdict.py",
        "replicates=",
        "min(map(len, found.values()), default=0) -> max(map(len, found.values()), default=0)",
    ): "all lists hold the records of whole groups, and are equally long",
    (f"{BENCH}/logs/advice_worlds.py", "np.repeat([0, 1]", "1 -> 2"): (
        "the larger label is that of the made rows, whatever its number"
    ),
    (f"{BENCH}/logs/advice_worlds.py", "problem_of(", "0 -> 1"): (
        "draws the log's target sample, which is not compared"
    ),
    (f"{BENCH}/store/file.py", "_in_order(values), strict=", "True -> False"): (
        "both have one entry for each of `COVERED`"
    ),
    (f"{BENCH}/store/reader.py", "of_data = list(zip(", "True -> False"): (
        "columns of one table are equally long"
    ),
    (f"{BENCH}/store/reader.py", "READ_AT_ONCE", "1000 -> 1001"): (
        "how many records are in memory at once, which changes nothing of what is read"
    ),
}
"""By file, part of the line, and change: why no test can notice it."""
