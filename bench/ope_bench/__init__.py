"""ope-bench: a pluggable benchmark suite for off-policy evaluation estimators.

A plugin author needs the names below and nothing deeper; the built-in plugins use no others.
They are imported on first use, so that ``import ope_bench`` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ope_bench.api import evaluate as evaluate
    from ope_bench.boards.board import Row as Row
    from ope_bench.boards.columns.column import BoardColumn as BoardColumn
    from ope_bench.contracts.access import Access as Access
    from ope_bench.contracts.arrays import FloatArray as FloatArray
    from ope_bench.contracts.arrays import IntArray as IntArray
    from ope_bench.contracts.arrays import require_one_per_row as require_one_per_row
    from ope_bench.contracts.arrays import row_chunks as row_chunks
    from ope_bench.contracts.data import Problem as Problem
    from ope_bench.contracts.data import Truth as Truth
    from ope_bench.contracts.embeddings import DeterministicEmbedding as DeterministicEmbedding
    from ope_bench.contracts.embeddings import EmbeddingDistribution as EmbeddingDistribution
    from ope_bench.contracts.embeddings import FactoredEmbedding as FactoredEmbedding
    from ope_bench.contracts.embeddings import FiniteEmbedding as FiniteEmbedding
    from ope_bench.contracts.embeddings import RowIndex as RowIndex
    from ope_bench.contracts.environment import Environment as Environment
    from ope_bench.contracts.estimate import CHOSEN_ESTIMATOR as CHOSEN_ESTIMATOR
    from ope_bench.contracts.estimate import ESTIMATE_WARNING as ESTIMATE_WARNING
    from ope_bench.contracts.estimate import STANDARD_ERROR_WITHHELD as STANDARD_ERROR_WITHHELD
    from ope_bench.contracts.estimate import Diagnostic as Diagnostic
    from ope_bench.contracts.estimate import Estimate as Estimate
    from ope_bench.contracts.estimator import Estimator as Estimator
    from ope_bench.contracts.interval import Interval as Interval
    from ope_bench.contracts.interval import IntervalKind as IntervalKind
    from ope_bench.contracts.parameters.declaration import params as params
    from ope_bench.contracts.parameters.import_paths import LearnerName as LearnerName
    from ope_bench.contracts.parameters.import_paths import learner_from_path as learner_from_path
    from ope_bench.contracts.policies import DiscretePolicy as DiscretePolicy
    from ope_bench.contracts.policies import EpsilonGreedy as EpsilonGreedy
    from ope_bench.contracts.policies import PairFunction as PairFunction
    from ope_bench.contracts.policies import Policy as Policy
    from ope_bench.contracts.policies import Score as Score
    from ope_bench.contracts.policies import Softmax as Softmax
    from ope_bench.contracts.policies import Uniform as Uniform
    from ope_bench.contracts.random.sampling import sample_indices as sample_indices
    from ope_bench.contracts.random.seeding import stream as stream
    from ope_bench.contracts.resampling import DrawnRows as DrawnRows
    from ope_bench.contracts.resampling import UnitSampler as UnitSampler
    from ope_bench.contracts.resampling import problem_rows as problem_rows
    from ope_bench.contracts.reward_range import check_rewards as check_rewards
    from ope_bench.contracts.schema import Column as Column
    from ope_bench.contracts.schema import Schema as Schema
    from ope_bench.contracts.tabular import Tabular as Tabular
    from ope_bench.contracts.view import BatchedNuisance as BatchedNuisance
    from ope_bench.contracts.view import Nuisance as Nuisance
    from ope_bench.contracts.view import View as View
    from ope_bench.errors import AccessError as AccessError
    from ope_bench.errors import DataError as DataError
    from ope_bench.errors import OpeBenchError as OpeBenchError
    from ope_bench.errors import ParameterError as ParameterError
    from ope_bench.errors import PositivityViolation as PositivityViolation
    from ope_bench.errors import UnavailableError as UnavailableError
    from ope_bench.errors import UsageError as UsageError
    from ope_bench.errors import did_you_mean as did_you_mean
    from ope_bench.logs.advice.advise import advise as advise
    from ope_bench.logs.estimation import estimate as estimate
    from ope_bench.logs.log import Log as Log
    from ope_bench.logs.reading.target_policy import TargetPolicy as TargetPolicy
    from ope_bench.plugins.requirements import import_all as import_all
    from ope_bench.statistics.value_intervals.empirical_likelihood import (
        empirical_likelihood_interval as empirical_likelihood_interval,
    )
    from ope_bench.statistics.value_intervals.guaranteed import (
        betting_interval as betting_interval,
    )
    from ope_bench.statistics.value_intervals.guaranteed import (
        betting_interval_of_terms as betting_interval_of_terms,
    )
    from ope_bench.statistics.value_intervals.guaranteed import (
        largest_shortfall as largest_shortfall,
    )
    from ope_bench.statistics.value_intervals.guaranteed import (
        logarithmic_interval as logarithmic_interval,
    )
    from ope_bench.statistics.value_intervals.unit_bootstrap import (
        UNIT_RESAMPLES as UNIT_RESAMPLES,
    )
    from ope_bench.statistics.value_intervals.unit_bootstrap import (
        bootstrap_interval as bootstrap_interval,
    )
    from ope_bench.statistics.value_intervals.unit_bootstrap import (
        percentile_interval as percentile_interval,
    )
    from ope_bench.statistics.value_intervals.unit_bootstrap import (
        resampled_rows as resampled_rows,
    )
    from ope_bench.suites.nested import EstimatorSpec as EstimatorSpec
    from ope_bench.suites.nested import NestedEstimator as NestedEstimator
    from ope_bench.suites.nested_environment import NestedEnvironment as NestedEnvironment
    from ope_bench.tables.errors import DataFileError as DataFileError
    from ope_bench.tables.reading import TextRow as TextRow
    from ope_bench.tables.reading import has_header as has_header
    from ope_bench.tables.reading import read_rows as read_rows
    from ope_bench.tables.reading import read_table as read_table
    from ope_bench.tables.table import Table as Table
    from ope_bench.tables.table import column_index as column_index
    from ope_bench.tables.table import finite_number as finite_number

__version__ = "0.1.0"

_NAMES = {
    "api": ("evaluate",),
    "boards.board": ("Row",),
    "boards.columns.column": ("BoardColumn",),
    "contracts.arrays": ("FloatArray", "IntArray", "require_one_per_row", "row_chunks"),
    "contracts.data": ("Problem", "Truth"),
    "contracts.estimate": (
        "CHOSEN_ESTIMATOR",
        "ESTIMATE_WARNING",
        "STANDARD_ERROR_WITHHELD",
        "Diagnostic",
        "Estimate",
    ),
    "contracts.embeddings": (
        "DeterministicEmbedding",
        "EmbeddingDistribution",
        "FactoredEmbedding",
        "FiniteEmbedding",
        "RowIndex",
    ),
    "contracts.environment": ("Environment",),
    "contracts.estimator": ("Estimator",),
    "contracts.interval": ("Interval", "IntervalKind"),
    "contracts.parameters.import_paths": ("LearnerName", "learner_from_path"),
    "contracts.parameters.declaration": ("params",),
    "contracts.policies": (
        "DiscretePolicy",
        "EpsilonGreedy",
        "PairFunction",
        "Policy",
        "Score",
        "Softmax",
        "Uniform",
    ),
    "contracts.resampling": ("DrawnRows", "UnitSampler", "problem_rows"),
    "contracts.reward_range": ("check_rewards",),
    "contracts.random.seeding": ("stream",),
    "contracts.random.sampling": ("sample_indices",),
    "contracts.schema": ("Column", "Schema"),
    "contracts.tabular": ("Tabular",),
    "contracts.access": ("Access",),
    "contracts.view": ("BatchedNuisance", "Nuisance", "View"),
    "errors": (
        "AccessError",
        "DataError",
        "OpeBenchError",
        "ParameterError",
        "PositivityViolation",
        "UnavailableError",
        "UsageError",
        "did_you_mean",
    ),
    "logs.advice.advise": ("advise",),
    "logs.estimation": ("estimate",),
    "logs.log": ("Log",),
    "logs.reading.target_policy": ("TargetPolicy",),
    "plugins.requirements": ("import_all",),
    "suites.nested": ("EstimatorSpec", "NestedEstimator"),
    "suites.nested_environment": ("NestedEnvironment",),
    "statistics.value_intervals.empirical_likelihood": ("empirical_likelihood_interval",),
    "statistics.value_intervals.guaranteed": (
        "betting_interval",
        "betting_interval_of_terms",
        "largest_shortfall",
        "logarithmic_interval",
    ),
    "statistics.value_intervals.unit_bootstrap": (
        "UNIT_RESAMPLES",
        "bootstrap_interval",
        "percentile_interval",
        "resampled_rows",
    ),
    "tables.errors": ("DataFileError",),
    "tables.reading": ("TextRow", "has_header", "read_rows", "read_table"),
    "tables.table": ("Table", "column_index", "finite_number"),
}
"""The public names, by the module that defines them."""

_HOMES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = sorted(_HOMES)  # noqa: PLE0605  computed, so that each name stands in one table


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(importlib.import_module(f"ope_bench.{_HOMES[name]}"), name)
    msg = f"module 'ope_bench' has no attribute {name!r}"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
