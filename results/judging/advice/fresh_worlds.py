"""The page of results/advice: fixed choices against rules, and what `advise` says elsewhere."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from judging.pages.page import opening, table
from judging.trials.field import FALLBACK, TRACKS, FieldSetting, settings_of
from ope_bench.boards.tracks import Track, log_ratios
from ope_bench.logs.finding import Check
from ope_bench.statistics.coverage import wilson
from ope_bench.statistics.ranks import mean_interval

CLASSES: Sequence[tuple[str, Track, str, tuple[str, ...]]] = (
    ("Both policies known", TRACKS[1], "dm", ("dr", "sndr", "ipws", "sg-ipw", "dr-os", "dm")),
    ("Samples of both policies only", TRACKS[0], "dm-star", ("edm-star", "dm-star")),
)
"""Title, settings, recommended estimator, and what rules choose among, in their order."""

ENOUGH = 50.0
"""Effective rewarded rows from which a log has enough data."""

LEAST_SIZE, LEAST_USUAL = 30.0, 60.0
"""Effective sample size, and matches of a tenth of the policy, from which it has."""

TRUE_OF_CLEAN = {
    *(Check.EFFECTIVE_SIZE, Check.REWARDED, Check.LARGEST_WEIGHT, Check.SUPPORT_SIZE),
    *(Check.KNOWN_SIZE, Check.INTERVAL),
}
"""Checks that say how much a log tells, and not that it is wrong."""

LEAST_SAMPLE = 10.0
"""Effective sample size by the world itself below which `run-an-experiment` is no false alarm."""

UNSEEN = "retention"
"""The fault that leaves no trace in a log: rows are kept by their reward."""

UNBOUNDED = {UNSEEN, "confounding", "drift"}
"""Faults for which no share of wrong trust is promised."""

FAR = 1.5
"""Half widths of its interval beyond which a trusted value is wrong."""

COUNTED = ("best_dropped", "winner_held", "wrongly_certified")
LEFT = ("median_kept", "median_wide")
MEASURES = (
    "relative_regret", "spearman", "type_one", "type_two",
    "certified_type_one", "certified_type_two",
)  # fmt: skip
"""Counts, medians and means of `results/performance/scripts/shortlist_errors.py`."""


def estimator_of(row: Mapping[str, Any]) -> str:
    """Return the name of an estimator, of a rule with what it chooses among."""
    if row["estimator"] != "select":
        return str(row["estimator"])
    params = json.loads(row["params"])
    return f"{params['by']} among {params['candidates'][0].partition('[')[0]}"


def advice_page(results: Path) -> str:
    """Return the page of the folder results/advice.

    Parameters
    ----------
    results : the folder results/.
    """
    settings = settings_of(results, ("advice",), estimator_of)
    told = json.loads((results / "advice" / "verdicts.json").read_text(encoding="utf-8"))
    every = [one for one in told if "skipped" not in one]
    parts = [opening("advice"), *(_class(settings, *one) for one in CLASSES)]
    numbers = [one["world"] for one in told]
    range_of = {"first": f"{min(numbers):,}", "last": f"{max(numbers):,}"}
    counts = {"judged": len(every), "worlds": len(told)}
    parts += [f"{opening('advice verdicts', **range_of, **counts)}\n\n{wrong_trust(every)}"]
    # Files made before lifts were judged know no value of today's policy.
    parts += [_promises(every)] if all("today" in one for one in every) else []
    parts += [_verdicts(every), _alarms(every)]
    for name, section in (
        ("next_log", _next_log),
        ("shortlist", shortlist_section),
        ("hidden_cause", _hidden_cause),
    ):
        path = results / "advice" / f"{name}.json"
        if path.is_file():
            rows = json.loads(path.read_text(encoding="utf-8"))
            parts.append(section([one for one in rows if "skipped" not in one]))
    return "\n\n".join(parts) + "\n"


# Fixed choices and rules.


def _class(
    settings: Sequence[FieldSetting],
    title: str,
    track: Track,
    recommended: str,
    fixed: Sequence[str],
) -> str:
    """Errors of fixed choices and of the rules among them, over the recommended one."""
    inside = [
        one for one in settings if track.holds(one) and not one.answers[recommended].failed.any()
    ]
    parts = {
        damaged: [one for one in inside if bool(one.facts.get("damages")) == damaged]
        for damaged in (False, True)
    }
    names = {name for one in inside for name in one.answers if name.endswith(f" among {fixed[0]}")}
    errors = {name: log_ratios(inside, name, recommended) for name in (*fixed, FALLBACK, *names)}
    rows, better = [], []
    for name in sorted(errors, key=lambda name: (float(errors[name].mean()), name)):
        rule = name.partition(" among ")[0]
        if name in names and mean_interval(errors[name])[2] < 0:
            better.append(rule)
        shown = f"**`{rule}`**" if name in names else f"always `{name}`"
        told = [_ratio(log_ratios(some, name, recommended)) for some in parts.values()]
        rows.append([shown, *told, _regret(inside, name, fixed)])
    head = ["choice", "error, clean", "error, faulty", "regret"]
    words = (
        f"{len(parts[False])} clean worlds and {len(parts[True])} with faults. Rules whose error "
        f"was shown to be below that of always `{recommended}`: "
        f"{', '.join(f'`{one}`' for one in better) or 'none'}."
    )
    return f"## {title}\n\n{words}\n\n{table(head, rows, 'lr', tight=True)}"


def _ratio(logs: np.ndarray[Any, np.dtype[np.float64]]) -> str:
    if len(logs) < 2:
        return "–"
    value, low, high = np.exp(mean_interval(logs))
    return f"{value:.2f} ({low:.2f} to {high:.2f})"


def _regret(settings: Sequence[FieldSetting], name: str, fixed: Sequence[str]) -> str:
    """Geometric mean of the error over that of the best fixed choice of each setting."""
    ran = [one for one in settings if name in one.answers]
    logs = [one.log_rmse(name) - min(one.log_rmse(other) for other in fixed) for one in ran]
    return f"{np.exp(np.mean(logs)):.2f}"


# What `advise` and `log check` say.


def wrong_trust(every: Sequence[Mapping[str, Any]]) -> str:
    """How often a trusted interval missed the value, in words."""
    trusted = [one for one in every if one["verdict"] == "trust"]
    parts = []
    for name, those in (
        ("on clean logs", [one for one in trusted if not one["faults"]]),
        ("on logs with faults", [one for one in trusted if one["faults"]]),
        ("on all", trusted),
        ("on all without `retention`", [one for one in trusted if UNSEEN not in one["faults"]]),
    ):
        missed = sum(not one["low"] <= one["truth"] <= one["high"] for one in those)
        parts.append(f"{name} {_share(missed, len(those))}")
    return f"Wrong `trust`, a trusted interval without the value: {'; '.join(parts)}."


def is_wrong(one: Mapping[str, Any]) -> bool:
    """Return whether a trusted answer is wrong: far from the value, or of the contrary sign."""
    if one["verdict"] != "trust" or one["low"] is None:
        return False
    half = (one["high"] - one["low"]) / 2
    lift = {"better": -1, "worse": 1}.get(one["better"], 0) * (one["truth"] - one["today"])
    return bool(abs(one["truth"] - one["low"] - half) > FAR * half or lift > 0)


def _promises(every: Sequence[Mapping[str, Any]]) -> str:
    """A table of what the verdict is held to."""
    clean = [one for one in every if not one["faults"]]
    known = [one for one in clean if one["known"]]
    enough = [
        one
        for one in known
        if (_figure(one, Check.REWARDED) or 0.0) >= ENOUGH
        and (_figure(one, Check.EFFECTIVE_SIZE) or 0.0) >= LEAST_SIZE
    ]
    without = [
        {"truth": one["truth"], "today": one["today"], **one["estimated"]}
        for one in clean
        if "estimated" in one
    ]
    estimated = [
        one for one in without if (_figure(one, Check.SUPPORT_SIZE) or 0.0) >= LEAST_USUAL
    ]
    lifts = [
        (one, one["truth"] - one["today"], (one["lift_high"] - one["lift_low"]) / 2)
        for one in known
        if one["lift_low"] is not None
    ]
    clear = [(one, lift) for one, lift, half in lifts if abs(lift) > 2 * half]
    tiny = [one for one, lift, half in lifts if abs(lift) < 0.1 * half]

    def trusted(one: Mapping[str, Any]) -> bool:
        return bool(one["verdict"] == "trust" and one["low"] is not None)

    def refused(one: Mapping[str, Any]) -> bool:
        return bool(one["verdict"] == "run-an-experiment")

    able = [one for one in known if one["sample"] >= LEAST_SAMPLE]
    rows = [
        ["clean, propensities, enough rows: `trust`", _of(enough, trusted), "80 % at least"],
        ["clean, estimated propensities, enough matches: `trust`", _of(estimated, trusted),
         "60 % at least"],
        ["clean: trusted and wrong", _of(clean, is_wrong), "2 % at most"],
        ["clean, estimated propensities: trusted and wrong", _of(without, is_wrong),
         "2 % at most"],
        ["clean, propensities: `run-an-experiment`", _of(known, refused), "5 % at most"],
        [f"of these, the world gives an effective sample of {LEAST_SAMPLE:g}", _of(able, refused),
         "5 % at most"],
        ["lift over two half widths: `better` or `worse`, rightly",
         _of(clear, lambda pair: pair[0]["better"] == ("better" if pair[1] > 0 else "worse")),
         "85 % at least"],
        ["lift under a tenth of a half width: either",
         _of(tiny, lambda one: one["better"] != "cannot tell"), "6 % at most"],
    ]  # fmt: skip
    for fault in dict.fromkeys(name for one in every for name in one["faults"]):
        those = [one for one in every if fault in one["faults"]]
        bound = "none" if fault in UNBOUNDED else "10 % at most"
        alone = [one for one in those if fault in UNBOUNDED or not UNBOUNDED & {*one["faults"]}]
        more = f"; all {sum(map(is_wrong, those))} of {len(those)}" * (len(alone) < len(those))
        rows.append([f"{fault}: trusted and wrong", f"{_of(alone, is_wrong)}{more}", bound])
    return table(["logs", "share", "wanted"], rows, "lr", tight=True)


def _of(those: Sequence[Any], holds: Callable[[Any], bool]) -> str:
    return _share(sum(map(holds, those)), len(those))


def _verdicts(every: Sequence[Mapping[str, Any]]) -> str:
    """A table of verdicts, and how often stated intervals held."""
    rows = []
    for known, faulty in itertools.product((True, False), (False, True)):
        here = [one for one in every if (one["known"], bool(one["faults"])) == (known, faulty)]
        kind = f"{'known' if known else 'samples only'}, {'faulty' if faulty else 'clean'}"
        groups = [(kind, here)]
        if known and not faulty:
            enough = [
                one for one in here if (_figure(one, Check.EFFECTIVE_SIZE) or 0.0) >= LEAST_SIZE
            ]
            groups.append((f"{kind}, effective sample from {LEAST_SIZE:g}", enough))
        if faulty and not known:
            groups.append(("all", list(every)))
        for name, those in groups:
            if not those:
                continue
            trusted, *others = (
                [one for one in those if one["verdict"] == verdict]
                for verdict in ("trust", "caution", "run-an-experiment")
            )
            cells = [name, str(len(those)), _share(len(trusted), len(those)), _held(trusted)]
            rows.append(
                [*cells, *(f"{len(some)} ({_held(some)})" for some in others), _held(those)]
            )
    head = ["logs", "logs", "trust", "of these held", "caution (held)", "run an experiment (held)"]
    return table([*head, "all stated held"], rows, "lr", tight=True)


def _figure(one: Mapping[str, Any], check: Check) -> float | None:
    found: list[float | None] = one["checks"].get(check.value, [None])
    return found[0]


def _share(count: int, of: int) -> str:
    if not of:
        return "–"
    interval = wilson(count, of)
    return f"{count} of {of}: {count / of:.2f} ({interval.low:.2f} to {interval.high:.2f})"


def _held(those: Sequence[Mapping[str, Any]]) -> str:
    stated = [one for one in those if one["low"] is not None]
    return _share(sum(one["low"] <= one["truth"] <= one["high"] for one in stated), len(stated))


def _alarms(every: Sequence[Mapping[str, Any]]) -> str:
    """How often each check says LOOK on clean logs and on logs with each fault."""
    groups = {"clean": [one for one in every if not one["faults"]]}
    faults = dict.fromkeys(name for one in every for name in one["faults"])
    groups |= {name: [one for one in every if name in one["faults"]] for name in faults}
    made = {name for one in every for name in one["checks"]}
    checks = [one for one in Check if one.value in made and one not in TRUE_OF_CLEAN]
    rows, shown = [], []
    for group, those in groups.items():
        looks = [
            {name for name, (_, passed) in one["checks"].items() if passed is False}
            for one in those
        ]
        shares = [float(np.mean([one.value in look for look in looks])) for one in checks]
        anything = np.mean([bool(look & {one.value for one in checks}) for look in looks])
        rows.append((group, len(those), shares, f"{anything:.0%}"))
    # A check without any finding here needs no column.
    used = [any(shares[at] for _, _, shares, _ in rows) for at in range(len(checks))]
    for group, count, shares, whole in rows:
        found = [f"{one:.0%}" for one, kept in zip(shares, used, strict=True) if kept]
        shown.append([group, str(count), *found, whole])
    head = [one.value for one, kept in zip(checks, used, strict=True) if kept]
    silent = ", ".join(one.value for one, kept in zip(checks, used, strict=True) if not kept)
    old = made - {one.value for one in Check}
    others = ", ".join(sorted(one for one in old if not one.startswith(Check.CONTEXT_DRIFT)))
    later = ", ".join(one.value for one in Check if one.value not in made and one.first_action)
    text = table(["logs", "logs", *head, "any of these"], shown, "lr", tight=True)
    text += (
        f"\n\nWithout any LOOK here: {silent or 'none'}. Of the checks that made these verdicts "
        f"these are none today: {others or 'none'}. Today's other checks, of which these verdicts "
        f"know nothing: {later or 'none'}."
    )
    return f"<details><summary>What each check finds</summary>\n\n{text}\n\n</details>"


# What comes after it.


def _next_log(rows: Sequence[Mapping[str, Any]]) -> str:
    ratios = np.array([one["ratio"] for one in rows])
    near = int((np.abs(ratios - 1) <= 0.1).sum())
    low, middle, high = np.quantile(ratios, (0.05, 0.5, 0.95))
    return (
        f"{opening('advice next')}\n\nWithin 10 % of each other in {_share(near, len(ratios))}; "
        f"the median ratio is {middle:.2f}, the 5 % and 95 % points are {low:.2f} and {high:.2f}."
    )


def shortlist_section(rows: Sequence[Mapping[str, Any]]) -> str:
    """How often the best was dropped, by number of candidates, in each world and in all."""
    worlds, whole, judged = [], [], []
    for count in sorted({one["policies"] for one in rows}):
        here = [one for one in rows if one["policies"] == count]
        every = {name: sum(one[name] for one in here) for name in ("logs", *COUNTED)}
        for one in [*here, {**every, "world": "all"}]:
            shares = (_share(one[name], one["logs"]) for name in COUNTED)
            if "policies" in one:
                left = [f"{one[name]:g}" for name in LEFT]
                worlds.append([str(count), str(one["world"]), *shares, *left])
            else:
                whole.append([str(count), *shares])
        means = (
            np.mean([one[name] for one in here if one[name] is not None]) for name in MEASURES
        )
        seconds = next(
            one["product_seconds"] for one in here if one["product_seconds"] is not None
        )
        judged.append([str(count), *(f"{mean:.2f}" for mean in means), f"{seconds:.0f} s"])
    head = ["best dropped", "winner's value held", "wrongly certified"]
    columns = ["policies", "world", *head, "left", "left, Bonferroni"]
    measured = [
        "policies",
        "value lost",
        "rank correlation",
        "wrongly adopted",
        "wrongly rejected",
    ]
    measured += ["wrongly certified", "not certified", "`shortlist` on one log"]
    return (
        f"{opening('advice shortlist')}\n\n"
        f"{table(['policies', *head], whole, 'r', tight=True)}\n\n"
        f"<details><summary>World by world</summary>\n\n{table(columns, worlds, 'r', tight=True)}"
        "\n\n</details>\n\n"
        f"{opening('advice selection')}\n\n{table(measured, judged, 'r', tight=True)}"
    )


def _hidden_cause(rows: Sequence[Mapping[str, Any]]) -> str:
    shown = []
    for strength in sorted({one["lambda"] for one in rows}):
        here = [one for one in rows if one["lambda"] == strength]
        cells = [
            _share(sum(one[name][part] for one in here), len(here))
            for name, part in itertools.product(("dm", "ipws"), (0, 1))
        ]
        widths = (
            np.median([one["ipws"][part] / one["dm"][part] for one in here]) for part in (2, 3)
        )
        shown.append([f"{strength:g}", *cells, " / ".join(f"{width:.2f}" for width in widths)])
    head = ["Λ", "`dm` alone", "`dm`, with error", "`ipws` alone", "`ipws`, with error"]
    columns = [*head, "median width, `ipws` over `dm`, alone / with error"]
    return f"{opening('advice hidden')}\n\n{table(columns, shown, 'r', tight=True)}"
