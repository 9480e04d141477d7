"""Facts of the machine and the software that a run's numbers and times depend on."""

from __future__ import annotations

from typing import Any

__all__ = ["machine_facts"]


def machine_facts() -> dict[str, Any]:
    """CPU, GPU, BLAS, versions of ope-bench, plugins and numerical packages, git revision."""
    raise NotImplementedError
