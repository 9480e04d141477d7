"""Conformance checks of estimators and environments.

The tests of a plugin call them:

    from ope_bench.testing import estimator_checks

    @estimator_checks(MyIPW(), MyIPW(clip=10.0))
    def test_my_ipw_conforms(check):
        check()
"""

from __future__ import annotations

from ope_bench.testing.checks import CheckFailed, CheckResult, Checks, NotApplicable
from ope_bench.testing.environment_checks import environment_checks
from ope_bench.testing.estimator_checks import estimator_checks

__all__ = [
    "CheckFailed",
    "Checks",
    "NotApplicable",
    "CheckResult",
    "environment_checks",
    "estimator_checks",
]
