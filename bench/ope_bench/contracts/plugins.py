"""Interfaces that a plugin author implements, Estimator and Environment, and their results."""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np

from ope_bench.base.canonical import scalar
from ope_bench.base.errors import DataError, UnavailableError
from ope_bench.contracts.arrays import FloatArray, finite_number, real_number
from ope_bench.contracts.data import Problem, Truth
from ope_bench.contracts.parameters import Parametrized
from ope_bench.contracts.view import Access, BatchedNuisance, View

IntervalKind = Literal["asymptotic", "empirical-likelihood", "guaranteed", "bootstrap", "anytime"]
"""Method of an interval, on which its level rests.

``asymptotic`` and ``bootstrap`` reach their level as the logs grow, ``empirical-likelihood`` also,
and often earlier; ``guaranteed`` covers at least its level at every number of rows, for rewards in
a known range and correct propensities. ``anytime`` does so at all numbers of rows together: who
looks after every row, and stops when she likes, is misled by no more.
"""


@dataclass(frozen=True)
class Interval:
    """A confidence interval of the target policy's value.

    Parameters
    ----------
    low, high : its ends.
    level : probability with which it is to hold the value.
    kind : how it was made.

    >>> interval = Interval(0.2, 0.5, 0.95, "guaranteed")
    >>> interval.width
    0.3
    >>> print(interval)
    95 % guaranteed interval 0.2 to 0.5
    """

    low: float
    high: float
    level: float = 0.95
    kind: IntervalKind = "asymptotic"

    def __post_init__(self) -> None:
        for name in ("low", "high", "level"):
            value = finite_number(f"interval: {name}", getattr(self, name))
            object.__setattr__(self, name, value)
        if self.low > self.high:
            msg = f"interval: low is {self.low}, above high, {self.high}"
            raise DataError(msg)
        if not 0 < self.level < 1:
            msg = f"interval: level is {self.level}; expected a number between 0 and 1"
            raise DataError(msg)
        if self.kind not in get_args(IntervalKind):
            known = ", ".join(map(repr, get_args(IntervalKind)))
            msg = f"interval: kind is {self.kind!r}; expected one of {known}"
            raise DataError(msg)

    def __str__(self) -> str:
        words = f"{100 * self.level:.6g} % {self.kind} interval"
        return f"{words} {self.low:.6g} to {self.high:.6g}"

    def holds(self, value: float) -> bool:
        """Return whether a value is in it, its ends included."""
        return self.low <= value <= self.high

    @property
    def width(self) -> float:
        """Distance of its ends."""
        return self.high - self.low


Diagnostic = float | int | str | bool | None

WeightSpace = Literal["action", "embedding"]
"""The space on which an estimate's weights are a density ratio."""

_LARGEST_INTEGER = int(sys.float_info.max)
"""Boards take means of integers, too."""

_LARGEST_DIAGNOSTICS = 1 << 16
"""Characters of an estimate's diagnostics together; the store keeps them with every record."""

_NUMBER_CHARACTERS = 24
"""Characters that a number counts as."""

SIGNAL = "reward_r2"
"""The diagnostic of the signal of a log: the R2 of the reward model out of fold."""

STANDARD_ERROR_WITHHELD = "standard_error_withheld"
"""Name of the diagnostic in which an estimator says why it withholds its standard error."""

CHOSEN_ESTIMATOR = "chosen"
"""Name of the diagnostic in which an estimator that chooses among others names its choice."""

ESTIMATE_WARNING = "warning"
"""Name of the diagnostic in which an estimator says why its estimate is doubtful."""


@dataclass(frozen=True, eq=False)
class Estimate:
    """An estimator's result.

    Parameters
    ----------
    value : estimated expected reward per round under the target policy.
    standard_error : of ``value``, where the estimator offers one and believes it.
    weights : (n,), importance weight of each logged row, before self-normalization.
    diagnostics : plain numbers and words for the store; `STANDARD_ERROR_WITHHELD` says why an
        estimator that offers a standard error gives none here, `ESTIMATE_WARNING` why its value
        is doubtful; both are shown as warnings, and so is a ``mean_weight``, one in expectation,
        that is far below one.
    target_weights : (m,), the weight function at the target rows, where a ratio was learned.
    weight_space : whether the weights estimate the ratio of action or embedding densities;
        lets the runner compare them with the true ratio where the environment knows it.
    interval : a confidence interval of ``value``, where the estimator makes one that is not the
        normal interval of its standard error.
    terms : (n,), what each logged row adds: ``value`` is their mean (plus that of
        ``target_terms``), exactly or to first order, as for a ratio of means. Given where the
        spread of the terms is that of the value, so that others can compute the error of a
        difference of two estimates. Not stored.
    target_terms : (m,), the same of each target row.
    """

    value: float
    standard_error: float | None = None
    weights: FloatArray | None = None
    diagnostics: Mapping[str, Diagnostic] = field(default_factory=dict)
    target_weights: FloatArray | None = None
    weight_space: WeightSpace | None = None
    interval: Interval | None = None
    terms: FloatArray | None = None
    target_terms: FloatArray | None = None

    def __post_init__(self) -> None:
        for name in ("value", "standard_error"):
            given = getattr(self, name)
            if type(given) is not float and not (name == "standard_error" and given is None):
                object.__setattr__(self, name, real_number(name, given))
        for name in ("weights", "target_weights", "terms", "target_terms"):
            given = getattr(self, name)
            if given is not None:
                object.__setattr__(self, name, np.asarray(given, dtype=np.float64))
                if np.ndim(given) != 1:
                    msg = f"{name} has shape {np.shape(given)}; expected one number per row"
                    raise DataError(msg)
                # A value that is not finite is a status of its own.
                finite = np.isfinite(getattr(self, name))
                if math.isfinite(self.value) and not finite.all():
                    row = int(np.argmin(finite))
                    msg = (
                        f"{name}[{row}] is {given[row]}, though the value is finite; expected a "
                        "number"
                    )
                    raise DataError(msg)
        if self.weight_space is not None and self.weight_space not in get_args(WeightSpace):
            known = " or ".join(map(repr, get_args(WeightSpace)))
            msg = f"weight_space is {self.weight_space!r}; expected {known}"
            raise DataError(msg)
        if not isinstance(self.interval, Interval | None):
            msg = f"interval is {type(self.interval).__name__}; expected ope_bench.Interval"
            raise DataError(msg)
        object.__setattr__(self, "diagnostics", _validate_diagnostics(self.diagnostics))


def checked_estimate(returned: object, n: int, m: int) -> Estimate:
    """Return what an estimator returned, if it is an estimate for these rows.

    Parameters
    ----------
    returned : by the estimator.
    n, m : rows of the log and of the target sample.

    Raises
    ------
    DataError : it is no estimate, or has another number of rows.
    """
    if not isinstance(returned, Estimate):
        msg = f"estimate returned {type(returned).__name__}; expected ope_bench.Estimate"
        raise DataError(msg)
    lengths = {"weights": n, "terms": n, "target_weights": m, "target_terms": m}
    for name, rows in lengths.items():
        numbers = getattr(returned, name)
        if numbers is not None and len(numbers) != rows:
            whose = ", the target sample's" if name.startswith("target") else ""
            msg = f"{name} has {len(numbers)} rows; expected {rows}{whose}"
            raise DataError(msg)
    return returned


def refuse_unused(estimator: Estimator, data: Problem | View) -> None:
    """Raise UnavailableError where logs have row weights or masks that an estimator ignores."""
    if data.row_weight is not None and not estimator.row_weights:
        msg = "the logs have row weights, which this estimator does not use; ipws, dm and dr-os do"
        raise UnavailableError(msg)
    masked = data.has_action_mask if isinstance(data, View) else data.action_mask is not None
    if masked and not estimator.action_masks:
        msg = "the logs have action masks, which this estimator does not use; ipws, dm and dr do"
        raise UnavailableError(msg)


def _validate_diagnostics(diagnostics: Mapping[str, Diagnostic]) -> dict[str, Diagnostic]:
    plain: dict[str, Diagnostic] = {}
    for name, value in diagnostics.items():
        value = scalar(value)
        if not (value is None or isinstance(value, float | int | str | bool)):
            msg = f"diagnostics[{name!r}] is {type(value).__name__}; expected a number or a word"
            raise DataError(msg)
        if isinstance(value, int) and abs(value) > _LARGEST_INTEGER:
            msg = f"diagnostics[{name!r}] is an integer that no double can hold"
            raise DataError(msg)
        plain[str(name)] = value
    size = sum(
        len(name) + (len(value) if isinstance(value, str) else _NUMBER_CHARACTERS)
        for name, value in plain.items()
    )
    if size > _LARGEST_DIAGNOSTICS:
        msg = (
            f"diagnostics have {size:,} characters; expected at most {_LARGEST_DIAGNOSTICS:,}: "
            "keep figures and short words, and write arrays to a file"
        )
        raise DataError(msg)
    return plain


class Estimator(Parametrized, ABC):
    """Base class of estimators of a target policy's value from logs of another policy.

    Parameters are the annotated class attributes, or the annotated arguments of the class's own
    ``__init__``, which stores them under their own names and does nothing else; fitted attributes
    end in ``_``. Class attributes without annotation (or properties, where they depend on
    parameters):

    ``access``
        the data that the estimator needs beyond samples; the view withholds all other.
    ``optional_access``
        the part of ``access`` that it can do without: where the environment lacks it, the view
        raises UnavailableError when it is read, instead of the trial being ``unavailable``.
    ``nested``
        estimators that it runs; a change of their code makes stored trials out of date, as a
        change of its own does. See `NestedEstimator`.
    ``row_weights``
        whether it uses `View.row_weight`; where logs have row weights, others are ``unavailable``.
    ``action_masks``
        whether it holds where actions are unavailable at some rows: it sums over actions by the
        policies alone, or uses `View.action_mask`; where logs have masks, others are
        ``unavailable``.
    ``devices``
        devices on which it can train; only estimators that list ``cuda`` are run on it.
    ``batched``
        shared fits, among those that ``fit`` requests from the view, that can be trained for many
        replicates at once; an estimator with any is also run on the batched forms of its
        devices, where these fits are trained before ``fit`` is called.
    ``requires``
        modules that the harness imports before it starts timing, so that imports are not part of
        the fit time; if one is missing, the trial is ``unavailable`` with the ``pip install``
        line.
    ``added_parameters``
        parameters that were added to the class later, each with the value that leaves results
        unchanged; keys omit a parameter with that value, so that stored trials stay valid.
    """

    @property
    def access(self) -> Access:
        """Data needed beyond samples; most subclasses assign a class attribute."""
        return Access.SAMPLES

    @property
    def optional_access(self) -> Access:
        """The part of ``access`` without which it can run."""
        return Access.SAMPLES

    @property
    def row_weights(self) -> bool:
        """Whether it uses ``view.row_weight``."""
        return False

    @property
    def action_masks(self) -> bool:
        """Whether it holds where actions are unavailable at some rows."""
        return False

    @property
    def nested(self) -> tuple[Estimator, ...]:
        """Estimators that it runs."""
        return ()

    @property
    def devices(self) -> tuple[str, ...]:
        """Devices on which it can train."""
        return ("cpu",)

    @property
    def batched(self) -> tuple[BatchedNuisance[Any], ...]:
        """Shared fits that can be trained for many replicates at once, in the order of use."""
        return ()

    @property
    def requires(self) -> tuple[str, ...]:
        """Modules that are imported before timing starts."""
        return ()

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> Self:
        """Train on the view; estimators that train nothing inherit this method.

        Parameters
        ----------
        view : the samples and the data that ``access`` grants.
        rng : the only source of randomness.
        device : ``cpu`` or ``cuda``.
        """
        return self

    @abstractmethod
    def estimate(self, view: View) -> Estimate:
        """Return the estimate for the view that ``fit`` was called with.

        Raises
        ------
        PositivityViolation : no finite estimate exists.
        """


class Environment(Parametrized, ABC):
    """A source of off-policy evaluation problems with a known true value.

    Parameters are declared as in an `Estimator`, ``n_samples`` among them. ``version`` counts
    changes that alter numbers: results of different versions are never compared. ``requires``
    lists modules, as in an `Estimator`. ``origin_note`` is shown with every number, for example
    that the data are a surrogate.
    """

    version: ClassVar[int] = 1

    suite_salt = ""
    """The salt of the suite, set before sampling; empty for none.

    It enters the streams that the environment is given. One whose numbers derive from a parameter
    by `ope_bench.stream` adds it as one more word; one that wraps another hands it on.
    """

    @property
    def requires(self) -> tuple[str, ...]:
        """Modules that are imported before sampling."""
        return ()

    @property
    def data_files(self) -> tuple[str, ...]:
        """Files and folders that the numbers depend on; after an edit, stored trials run again."""
        return ()

    @property
    def wrapped(self) -> Environment | None:
        """The environment whose data this one changes.

        Its id is in every stream of seeds, so that both draw the same data, and a change of its
        code makes stored trials out of date. See `EnvironmentSpec`.
        """
        return None

    @property
    def origin_note(self) -> str:
        """A note shown with every number; empty for none."""
        return ""

    def examine(self, problem: Problem, estimate: Estimate) -> Mapping[str, Diagnostic]:
        """Return facts of an estimate that this environment adds to the trial's diagnostics."""
        return {}

    @abstractmethod
    def sample(
        self,
        *,
        world_rng: np.random.Generator,
        logged_rng: np.random.Generator,
        target_rng: np.random.Generator,
    ) -> tuple[Problem, Truth]:
        """Sample one problem and its true value.

        Parameters
        ----------
        world_rng : draws what defines the problem: reward coefficients, embeddings, policies'
            parameters. The same stream gives the same definition, whatever is sampled from it.
        logged_rng : draws the logs, before the target sample and independently of it.
        target_rng : draws the target sample and whatever the true value needs.

        Raises
        ------
        UnavailableError : data that the environment needs are missing.
        """
