"""What the paper claims of its experiments, where, and which figures speak for or against it.

"As printed" takes the estimators by the paper's formulas, "corrected" those that the same idea
gives when its slips are mended (see `estimators/README.md`); "every rival" adds whoever may answer
under the same access, with regressors that suit the world. A claim about a method that the paper
prints without a slip has one form only.
"""

from __future__ import annotations

from pathlib import Path

from judging.claim import Claim
from judging.from_samples import from_samples
from judging.policies_known import appendix, policies_known
from judging.trials import Trials

__all__ = ["experiments"]


def experiments(results: Path, truth: str = "expected") -> list[Claim]:
    """All claims about experiments, judged against the value or against the paper's V_s.

    Parameters
    ----------
    results : the folder results/.
    truth : ``expected`` or ``empirical``.
    """

    def trials(suite: str, axis: str) -> Trials:
        return Trials(results / "paper" / suite, axis, truth)

    return [
        *policies_known(trials("actions", "n_actions"), trials("samples", "n_samples")),
        *from_samples(trials("failures", "n_actions"), trials("behance", "n_samples")),
        *appendix(
            trials("appendix-actions", "n_actions"), trials("appendix-samples", "n_samples")
        ),
    ]
