"""The claims about many actions name the settings and estimators of their suite."""

from __future__ import annotations

from judging import many_actions
from judging.trials import Method

from ope_bench.canonical import canonical_json
from ope_bench.suites.discovery import find_suite
from ope_bench.suites.manifest import plan


def test_settings_have_names_of_their_own_and_methods_are_planned_where_they_are_judged() -> None:
    planned: dict[str, set[tuple[str, str]]] = {}
    environments = set()
    for cell in plan(find_suite("large-actions")).cells:
        name = many_actions.setting_of(cell.environment.id, dict(cell.environment.params))
        environments.add(cell.environment.identity_json)
        method = cell.estimator.id, canonical_json(dict(cell.estimator.params))
        planned.setdefault(name, set()).add(method)
    assert sorted(planned) == sorted(many_actions.SETTINGS)
    assert len(planned) == len(environments)
    for judged in vars(many_actions).values():
        if isinstance(judged, Method):
            where = many_actions.FEWER if "pairwise" in judged.name else many_actions.SETTINGS
            assert all((judged.estimator, judged.params) in planned[name] for name in where)
