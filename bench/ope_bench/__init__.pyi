# The public names and their homes: for type checkers, and the table that `__getattr__` reads.

from ope_bench.api import evaluate as evaluate
from ope_bench.base.errors import AccessError as AccessError
from ope_bench.base.errors import DataError as DataError
from ope_bench.base.errors import OpeBenchError as OpeBenchError
from ope_bench.base.errors import ParameterError as ParameterError
from ope_bench.base.errors import PositivityViolation as PositivityViolation
from ope_bench.base.errors import UnavailableError as UnavailableError
from ope_bench.base.errors import UsageError as UsageError
from ope_bench.base.errors import did_you_mean as did_you_mean
from ope_bench.boards.board import Row as Row
from ope_bench.boards.columns import BoardColumn as BoardColumn
from ope_bench.contracts.arrays import FloatArray as FloatArray
from ope_bench.contracts.arrays import IntArray as IntArray
from ope_bench.contracts.arrays import check_rewards as check_rewards
from ope_bench.contracts.arrays import require_one_per_row as require_one_per_row
from ope_bench.contracts.arrays import row_chunks as row_chunks
from ope_bench.contracts.arrays import weighted_terms as weighted_terms
from ope_bench.contracts.data import Column as Column
from ope_bench.contracts.data import Problem as Problem
from ope_bench.contracts.data import Schema as Schema
from ope_bench.contracts.data import Truth as Truth
from ope_bench.contracts.embeddings import DeterministicEmbedding as DeterministicEmbedding
from ope_bench.contracts.embeddings import EmbeddingDistribution as EmbeddingDistribution
from ope_bench.contracts.embeddings import FactoredEmbedding as FactoredEmbedding
from ope_bench.contracts.embeddings import FiniteEmbedding as FiniteEmbedding
from ope_bench.contracts.embeddings import RowIndex as RowIndex
from ope_bench.contracts.parameters import LearnerName as LearnerName
from ope_bench.contracts.parameters import learner_from_path as learner_from_path
from ope_bench.contracts.parameters import params as params
from ope_bench.contracts.plugins import CHOSEN_ESTIMATOR as CHOSEN_ESTIMATOR
from ope_bench.contracts.plugins import ESTIMATE_WARNING as ESTIMATE_WARNING
from ope_bench.contracts.plugins import STANDARD_ERROR_WITHHELD as STANDARD_ERROR_WITHHELD
from ope_bench.contracts.plugins import Diagnostic as Diagnostic
from ope_bench.contracts.plugins import Environment as Environment
from ope_bench.contracts.plugins import Estimate as Estimate
from ope_bench.contracts.plugins import Estimator as Estimator
from ope_bench.contracts.plugins import Interval as Interval
from ope_bench.contracts.plugins import IntervalKind as IntervalKind
from ope_bench.contracts.plugins import WeightSpace as WeightSpace
from ope_bench.contracts.policies import DiscretePolicy as DiscretePolicy
from ope_bench.contracts.policies import EpsilonGreedy as EpsilonGreedy
from ope_bench.contracts.policies import ListPolicy as ListPolicy
from ope_bench.contracts.policies import PairFunction as PairFunction
from ope_bench.contracts.policies import Policy as Policy
from ope_bench.contracts.policies import Score as Score
from ope_bench.contracts.policies import Softmax as Softmax
from ope_bench.contracts.policies import Tabular as Tabular
from ope_bench.contracts.policies import Uniform as Uniform
from ope_bench.contracts.random import sample_indices as sample_indices
from ope_bench.contracts.random import stream as stream
from ope_bench.contracts.resampling import DrawnRows as DrawnRows
from ope_bench.contracts.resampling import UnitSampler as UnitSampler
from ope_bench.contracts.resampling import problem_rows as problem_rows
from ope_bench.contracts.streaming import LogFacts as LogFacts
from ope_bench.contracts.view import Access as Access
from ope_bench.contracts.view import BatchedNuisance as BatchedNuisance
from ope_bench.contracts.view import Nuisance as Nuisance
from ope_bench.contracts.view import View as View
from ope_bench.logs.ab import ab as ab
from ope_bench.logs.advise import advise as advise
from ope_bench.logs.estimation import estimate as estimate
from ope_bench.logs.formats import Decision as Decision
from ope_bench.logs.formats import LogFormat as LogFormat
from ope_bench.logs.formats import check_log_format as check_log_format
from ope_bench.logs.log import Log as Log
from ope_bench.logs.shortlist import shortlist as shortlist
from ope_bench.logs.streamed import estimate_stream as estimate_stream
from ope_bench.logs.targets import TargetPolicy as TargetPolicy
from ope_bench.plugins.requirements import import_all as import_all
from ope_bench.reader import DataFileError as DataFileError
from ope_bench.reader import Table as Table
from ope_bench.reader import TextForm as TextForm
from ope_bench.reader import finite_number as finite_number
from ope_bench.reader import has_header as has_header
from ope_bench.reader import read_table as read_table
from ope_bench.reader import table_of as table_of
from ope_bench.statistics.linear_scores import LinearEstimator as LinearEstimator
from ope_bench.statistics.linear_scores import LinearScore as LinearScore
from ope_bench.statistics.linear_scores import Solution as Solution
from ope_bench.statistics.linear_scores import self_normalized as self_normalized
from ope_bench.statistics.thompson import thompson_propensity as thompson_propensity
from ope_bench.statistics.unit_errors import Mass as Mass
from ope_bench.statistics.unit_errors import standard_error as standard_error
from ope_bench.statistics.unit_errors import sum_by_unit as sum_by_unit
from ope_bench.statistics.unit_errors import unknown_mass as unknown_mass
from ope_bench.statistics.unit_errors import weight_shares as weight_shares
from ope_bench.statistics.value_intervals import betting_interval as betting_interval
from ope_bench.statistics.value_intervals import (
    betting_interval_of_terms as betting_interval_of_terms,
)
from ope_bench.statistics.value_intervals import confidence_sequence as confidence_sequence
from ope_bench.statistics.value_intervals import (
    empirical_likelihood_interval as empirical_likelihood_interval,
)
from ope_bench.statistics.value_intervals import largest_shortfall as largest_shortfall
from ope_bench.statistics.value_intervals import logarithmic_interval as logarithmic_interval
from ope_bench.statistics.weight_checks import UNIT_RESAMPLES as UNIT_RESAMPLES
from ope_bench.statistics.weight_checks import bootstrap_interval as bootstrap_interval
from ope_bench.statistics.weight_checks import percentile_interval as percentile_interval
from ope_bench.statistics.weight_checks import resampled_rows as resampled_rows
from ope_bench.suites.nested import EnvironmentSpec as EnvironmentSpec
from ope_bench.suites.nested import EstimatorSpec as EstimatorSpec
from ope_bench.suites.nested import NestedEstimator as NestedEstimator
from ope_bench.suites.nested import wrapped_environment as wrapped_environment

__version__: str
