"""What advice says, as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ope_bench.canonical import plain
from ope_bench.logs.advice.figures import CandidateFigures, WorldFigures
from ope_bench.logs.advice.verdict import Verdict
from ope_bench.logs.checking.findings import Finding
from ope_bench.logs.result_rows import EstimateRow

__all__ = ["AdviceValues", "Recommended"]


@dataclass(frozen=True, kw_only=True)
class Recommended:
    """The recommended estimator.

    Parameters
    ----------
    estimator, label : id, and name on tables.
    value, low, high : its estimate of the policy's value, with its interval.
    expected_rmse : its error over the made worlds; None without them.
    expected_coverage : share of its intervals there that held the truth.
    """

    estimator: str
    label: str
    value: float
    low: float | None
    high: float | None
    expected_rmse: float | None
    expected_coverage: float | None


@dataclass(frozen=True, kw_only=True)
class AdviceValues:
    """Whether a log can answer what a policy would earn, by which estimator, how wrong.

    Parameters
    ----------
    log : facts of the log.
    target : name of the policy.
    logging_average : mean logged reward.
    verdict : ``trust``, ``caution`` or ``run-an-experiment``.
    reasons : why.
    recommended : the estimator to use; None where none has a value.
    rule : how it was chosen.
    rows : the candidates on the log.
    candidates : the candidates on the made worlds, by label.
    worlds : the made worlds.
    checks : what the verdict rests on.
    notes : what the reader must know; that no log shows hidden causes is always among them.
    """

    log: Mapping[str, Any]
    target: str
    logging_average: float
    verdict: Verdict
    reasons: Sequence[str]
    recommended: Recommended | None
    rule: str
    rows: Sequence[EstimateRow]
    candidates: Mapping[str, CandidateFigures]
    worlds: Sequence[WorldFigures]
    checks: Sequence[Finding]
    notes: Sequence[str]

    @property
    def exit_code(self) -> int:
        """0 whatever the verdict; 3 where no candidate has a value."""
        return 0 if self.recommended is not None else 3

    def as_json(self) -> dict[str, Any]:
        """Return the document of ``ope-bench advise --format json``."""
        recommended = self.recommended
        document: dict[str, Any] = plain(
            {
                "schema": 1,
                "verdict": self.verdict,
                "reasons": list(self.reasons),
                "recommended": None if recommended is None else asdict(recommended),
                "candidates": self.ranked(),
                "worlds": [asdict(world) for world in self.worlds],
                "checks": [asdict(one) for one in self.checks],
                "log": self.log,
                "target": self.target,
                "logging_average": self.logging_average,
                "rule": self.rule,
                "notes": list(self.notes),
                "exit_code": self.exit_code,
            }
        )
        return document

    def ranked(self) -> list[dict[str, Any]]:
        """Return the candidates with their figures, in the order of their ranks."""
        found = []
        for row in self.rows:
            figures = self.candidates.get(row.label, CandidateFigures())
            own = {
                "estimator": row.estimator,
                "label": row.label,
                "status": row.status,
                "value": row.value,
                "low": row.low,
                "high": row.high,
                "message": row.message,
            }
            found.append(own | asdict(figures))
        return sorted(found, key=lambda one: (one["rank"] is None, one["rank"] or 0))
