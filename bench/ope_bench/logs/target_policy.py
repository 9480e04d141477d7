"""The forms in which a user gives a policy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from ope_bench.base.errors import UsageError

Form = Literal["action", "probability", "table", "policy"]

_FIELDS: dict[Form, str] = {
    "action": "sampled",
    "probability": "logged_probability",
    "table": "table",
    "policy": "predict",
}

FORMS: tuple[Form, ...] = tuple(_FIELDS)
"""The keys of a log file, of which a policy has exactly one."""


@dataclass(frozen=True, eq=False)
class TargetPolicy:
    """A policy of the user, in exactly one of four forms.

    Parameters
    ----------
    sampled : column of the log with the action that the policy took, once, in the row's context;
        in Python also an array (n,). Gives a target sample and no probabilities.
    logged_probability : column of the log with the policy's probability of the logged action; in
        Python also an array (n,). Gives what importance weights need and nothing else.
    table : a file with the columns ``row`` (the log's rows, from 0), ``action`` and
        ``probability``, in which actions of probability zero may be left out; in Python also a
        data frame or mapping of these columns, or an array (n, n_actions) in the order of
        `Log.actions`. Gives everything.
    predict : ``FILE.py:NAME`` of an object with ``probability(context, action)``; in Python also a
        function of the contexts (a mapping of column names to arrays) that returns probabilities
        (k, n_actions). Gives everything.
    """

    sampled: Any = None
    logged_probability: Any = None
    table: Any = None
    predict: str | Callable[[Any], Any] | None = None

    def __post_init__(self) -> None:
        given = self._given()
        if len(given) != 1:
            msg = (
                f"a policy is given in {len(given)} forms ({', '.join(given) or 'none'}); give "
                f"exactly one of {', '.join(_FIELDS.values())}"
            )
            raise UsageError(msg)

    def _given(self) -> list[Form]:
        return [form for form, name in _FIELDS.items() if getattr(self, name) is not None]

    @property
    def form(self) -> Form:
        """The form, by its key in a log file."""
        return self._given()[0]

    @property
    def value(self) -> Any:
        """The column, array, file or function that was given."""
        return getattr(self, _FIELDS[self.form])

    @classmethod
    def of(cls, form: Form, value: Any) -> TargetPolicy:
        """Build the policy of a log file's key."""
        return cls(**{_FIELDS[form]: value})
