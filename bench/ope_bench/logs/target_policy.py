"""The forms in which a user gives a policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import InitVar, dataclass
from typing import Any, Literal

import numpy as np

from ope_bench.base.errors import UsageError, did_you_mean

Form = Literal["action", "probability", "table", "policy"]

FORMS: tuple[Form, ...] = ("action", "probability", "table", "policy")
"""The keys of a log file, of which a policy has exactly one."""

_FORMER = {"sampled": "action", "logged_probability": "probability", "predict": "policy"}
"""Former names of forms in Python."""


@dataclass(frozen=True, eq=False)
class TargetPolicy:
    """A policy of the user, in exactly one of four forms.

    Parameters
    ----------
    action : column of the log with the action that the policy took, once, in the row's context;
        in Python also an array (n,). Gives a target sample and no probabilities. Former name:
        ``sampled``.
    probability : column of the log with the policy's probability of the logged action; in
        Python also an array (n,). Gives what importance weights need and nothing else. Former
        name: ``logged_probability``.
    table : a file with the columns ``row`` (the log's rows, from 0), ``action`` and
        ``probability``, in which actions of probability zero may be left out; in Python also a
        data frame or mapping of these columns, or an array (n, n_actions) in the order of
        `Log.actions`. Gives everything.
    policy : ``FILE.py:NAME`` of an object with ``probability(context, action)``; in Python also
        the object, or a function of the contexts (a mapping of column names to arrays) that
        returns probabilities (k, n_actions). Gives everything. Former name: ``predict``.
    """

    action: Any = None
    probability: Any = None
    table: Any = None
    policy: Any = None
    sampled: InitVar[Any] = None
    logged_probability: InitVar[Any] = None
    predict: InitVar[Any] = None

    def __post_init__(self, sampled: Any, logged_probability: Any, predict: Any) -> None:
        former = (sampled, logged_probability, predict)
        given: list[str] = [form for form in FORMS if getattr(self, form) is not None]
        given += [name for name, value in zip(_FORMER, former, strict=True) if value is not None]
        if len(given) != 1:
            msg = (
                f"a policy is given in {len(given)} forms ({', '.join(given) or 'none'}); give "
                f"exactly one of {', '.join(FORMS)}"
            )
            raise UsageError(msg)
        for (_, form), value in zip(_FORMER.items(), former, strict=True):
            if value is not None:
                object.__setattr__(self, form, value)

    @property
    def form(self) -> Form:
        """The form, by its key in a log file."""
        return next(form for form in FORMS if getattr(self, form) is not None)

    @property
    def value(self) -> Any:
        """The column, array, file or function that was given."""
        return getattr(self, self.form)

    @classmethod
    def of(cls, form: Form, value: Any) -> TargetPolicy:
        """Build the policy of a log file's key."""
        return cls(**{form: value})


def read_policy(given: Any, name: str) -> TargetPolicy:
    """Return the policy that a user's value means.

    Parameters
    ----------
    given : a column's name (the probability of the logged action), a mapping of one form to its
        value as in a log file, an array (n, n_actions), a data frame with the columns row, action
        and probability, a function of contexts, an object with ``probability``, or a
        `TargetPolicy`.
    name : of the policy, for messages.

    Raises
    ------
    UsageError : it is none of these.
    """
    if isinstance(given, TargetPolicy):
        return given
    if isinstance(given, str):
        return TargetPolicy(probability=given)
    if isinstance(given, Mapping) and not {"row", "action", "probability"} <= given.keys():
        if len(given) != 1:
            msg = f"{name}: {len(given)} forms; give exactly one of {', '.join(FORMS)}"
            raise UsageError(msg)
        ((key, value),) = given.items()
        form = _FORMER.get(str(key), str(key))
        if form not in FORMS:
            hint = did_you_mean(str(key), FORMS)
            msg = f"{name}: no form '{key}'{hint}; give one of {', '.join(FORMS)}"
            raise UsageError(msg)
        if value is None:
            msg = f"{name}: `{key}` is None; give a column, an array, a file or a function"
            raise UsageError(msg)
        return TargetPolicy(**{form: value})
    if isinstance(given, np.ndarray | list) and not getattr(given, "dtype", np.dtype(float)).names:
        array = np.asarray(given)
        if array.ndim == 1:
            msg = (
                f"{name}: an array of one dimension may be actions or probabilities; write "
                '{"action": array} or {"probability": array}'
            )
            raise UsageError(msg)
        return TargetPolicy(table=array)
    if callable(given) or hasattr(given, "probability"):
        return TargetPolicy(policy=given)
    if hasattr(given, "columns") or isinstance(given, Mapping | np.ndarray):
        return TargetPolicy(table=given)
    msg = (
        f"{name}: {type(given).__name__} is no policy; give a column's name, a mapping of one of "
        f"{', '.join(FORMS)}, an array (n, n_actions), a function of contexts or an object with "
        "probability(context, action)"
    )
    raise UsageError(msg)


def read_policies(given: Any, only: str) -> dict[str, TargetPolicy]:
    """Return the policies that a user's value means, by name.

    Parameters
    ----------
    given : one policy as for `read_policy`, or a mapping of names that are no forms to such.
    only : the name of one that has none.
    """
    if not isinstance(given, Mapping):
        return {only: read_policy(given, only)}
    if not given:
        msg = "target: no policy; give one, or several by name"
        raise UsageError(msg)
    if not all(isinstance(one, TargetPolicy) for one in given.values()):
        keys = {str(key) for key in given}
        # A misspelled form is no name of a policy.
        misspelled = len(keys) == 1 and did_you_mean(next(iter(keys)), FORMS)
        if misspelled or keys & {*FORMS, *_FORMER}:
            return {only: read_policy(given, only)}
    return {str(name): read_policy(one, str(name)) for name, one in given.items()}
