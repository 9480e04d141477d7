"""Change parameters of a suite's entries: ``saito-toy.beta=-3``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from ope_bench.errors import UsageError, did_you_mean
from ope_bench.suites.selector import Selector
from ope_bench.suites.suite import Entry, Suite
from ope_bench.suites.yaml_document import load_flow

__all__ = ["with_changes"]


def with_changes(suite: Suite, changes: Iterable[str]) -> Suite:
    """Return a suite in which parameters have other values, under a name that says so.

    A change applies to every entry of its environment or estimator; grids of other parameters
    stay as they are.

    Parameters
    ----------
    suite : the suite.
    changes : ``ID.PARAMETER=VALUE``, values in YAML's flow style; a list is a grid.

    Raises
    ------
    UsageError : a change cannot be read, or the suite does not have its environment or estimator.
    """
    texts = list(changes)
    for text in texts:
        suite = _changed(suite, text)
    return replace(suite, name=f"{suite.name}[{','.join(texts)}]") if texts else suite


def _changed(suite: Suite, text: str) -> Suite:
    target, equals, value = text.partition("=")
    reference, dot, parameter = target.strip().rpartition(".")
    if not (equals and dot and reference and parameter.isidentifier() and value.strip()):
        msg = f"--set {text}: write ID.PARAMETER=VALUE, for example saito-toy.beta=-3"
        raise UsageError(msg)
    given = load_flow(value.strip(), f"in --set {text}")
    known = {entry.selector.reference for entry in (*suite.environments, *suite.estimators)}
    if reference not in known:
        hint = did_you_mean(reference, known) or f" (it has {', '.join(sorted(known))})"
        msg = f"--set {text}: suite '{suite.name}' has no '{reference}'{hint}"
        raise UsageError(msg)
    changes: dict[str, Any] = {
        part: tuple(_entry(entry, reference, parameter, given) for entry in getattr(suite, part))
        for part in ("environments", "estimators")
    }
    return replace(suite, **changes)


def _entry(entry: Entry, reference: str, parameter: str, value: object) -> Entry:
    selector = entry.selector
    if selector.reference != reference:
        return entry
    params = {**selector.params, parameter: value}
    return replace(entry, selector=Selector(reference, params, selector.label))
