"""Names of the rules that choose a hyper-parameter."""

from __future__ import annotations

from typing import Literal

__all__ = ["DataRule", "Rule"]

DataRule = Literal["mse", "slope", "ocv"]
"""Rules that compare candidates on the logs: `estimated_mse`, `slope`, `cross_validation`.

Here ``ocv`` takes terms of a reward model fitted on all rows, as ``ocv-terms`` of `select` does.
"""

Rule = Literal["theory", "mse", "slope", "ocv"]
"""The same, and the value that the paper derives from the weights and the number of units."""
