"""Estimators side by side with those of Open Bandit Pipeline, on the same logged data.

    python results/performance/scripts/side_by_side_obp_estimators.py --peer PEER/bin/python

Both get the same logs of `saito-mips` and the same two policies. ``whole`` is from logs and
policies to the number: the peer needs all probabilities of all actions as tables, and writing
them (chunk by chunk, which is kinder than its own generator) is part of its work; ours ask the
policies for what they need. ``call`` is the same again with what can be kept: the peer's tables
are there, and our target policy knows its greedy actions. Memory is the peak rise of ``whole``.

Where both compute the same sum the script ends with an error unless the numbers agree. Its MIPS
with "true" weights multiplies one-dimensional marginals, which is right for one dimension only:
there it is compared, in three dimensions it is timed beside our joint weights. With estimated
weights both fit a multinomial logistic regression, each on its own scale of features, stopped
after the same number of iterations: ours scikit-learn's, and in a row of its own our classifier
`softmax`, the peer's always scikit-learn's.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import interleaved
import obp_peer
from statement import Page

if TYPE_CHECKING:
    import numpy as np

ITERATIONS = 20
GIB = 2**30
LONG = 5.0
"""Seconds of ``whole`` beyond which ``call`` is left out."""

ESTIMATORS = {
    "IPW": 1e-10,
    "SNIPW": 1e-10,
    "DM, ordinal actions": 1e-6,
    "DM, one-hot actions": 1e-6,
    "DR, ordinal actions": 1e-6,
    "MIPS, true weights, 1 dimension": 1e-10,
    "MIPS, true weights, 3 dimensions": None,
    "MIPS, estimated weights": None,
    "MIPS, estimated weights, softmax": None,
}
"""By how much, relatively, both sides may differ; None where they compute different sums."""

TABLES = {"IPW": 1.2, "SNIPW": 1.2, "DM": 3.2, "DR": 3.2, "MIPS, t": 3.2, "MIPS, e": 9.0}
"""How many (rows, actions) tables of floats the peer holds at once, from smaller sizes."""

MOST_FEATURES = 3e9
"""Entries of one-hot features over all pairs of rows and actions beyond which DM takes minutes."""


def prepare_ours(job: dict[str, Any]) -> dict[str, Any]:
    """The problem, exported for the peer, and the estimators, each warmed up."""
    from dataclasses import replace

    import numpy as np

    from ope_bench.contracts.data import Schema
    from ope_bench.contracts.embeddings import FactoredEmbedding
    from ope_environments.saito.mips import SaitoMIPS
    from ope_estimators.actions.direct.dm import DM
    from ope_estimators.actions.doubly_robust.dr import DR
    from ope_estimators.actions.weighting.ipw import IPW
    from ope_estimators.actions.weighting.ipws import IPWS
    from ope_estimators.embedded.known.eipw import EIPW
    from ope_estimators.embedded.learned.mips import MIPS

    estimators = {
        "IPW": IPW(),
        "SNIPW": IPWS(),
        "DM, ordinal actions": DM("ridge", action_features="ordinal"),
        "DM, one-hot actions": DM("ridge"),
        "DR, ordinal actions": DR("ridge", action_features="ordinal", cross_fit=1),
        "MIPS, true weights, 1 dimension": EIPW(),
        "MIPS, true weights, 3 dimensions": EIPW(),
        "MIPS, estimated weights": MIPS(classifier_params={"max_iter": ITERATIONS}),
        "MIPS, estimated weights, softmax": MIPS(
            "softmax", classifier_params={"max_iter": ITERATIONS}
        ),
    }

    def problem_of(n: int, n_actions: int) -> Any:
        streams = map(np.random.default_rng, np.random.SeedSequence(0).spawn(3))
        names = ("world_rng", "logged_rng", "target_rng")
        environment = SaitoMIPS(n_actions=n_actions, n_samples=n)
        return environment.sample(**dict(zip(names, streams, strict=True)))[0]

    def one_dimension(problem: Any) -> Any:
        return replace(
            problem,
            embedding=problem.embedding[:, :1],
            target_embedding=problem.target_embedding[:, :1],
            schema=Schema(problem.schema.context, problem.schema.embedding[:1]),
            embedding_distribution=FactoredEmbedding(problem.embedding_distribution.tables[:1]),
        )

    small = problem_of(50, 5)
    for name, estimator in estimators.items():
        _estimate(estimator, one_dimension(small) if "1 dim" in name else small)
    n, n_actions, path = job["data"]
    problem = problem_of(n, n_actions)
    logging, target = problem.logging_policy, problem.target_policy
    np.savez(
        path,
        context=problem.context,
        action=problem.action,
        reward=problem.reward,
        propensity=problem.propensity,
        embedding=problem.embedding.astype(np.int64),
        tables=np.stack(problem.embedding_distribution.tables, axis=2),
        logging=logging.beta * logging._score.weights,
        target=target._score.weights,
        epsilon=target.epsilon,
    )
    return {"problem": problem, "narrow": one_dimension(problem), "estimators": estimators}


def _estimate(estimator: Any, problem: Any) -> float:
    import numpy as np

    from ope_bench.contracts.random import DataSeed
    from ope_bench.contracts.view import FitCache, View

    view = View(problem, estimator.access, seed=DataSeed("obp", 0, 0), fit_cache=FitCache())
    estimator.fit(view, rng=np.random.default_rng(0), device="cpu")
    return float(estimator.estimate(view).value)


def ours(state: dict[str, Any], job: dict[str, Any]) -> dict[str, Any]:
    """One estimator, whole and again."""
    from dataclasses import replace

    estimator = state["estimators"][job["estimator"]]
    problem = state["narrow" if "1 dim" in job["estimator"] else "problem"]

    def fresh() -> Any:
        # A policy remembers greedy actions by the array, so a copy is a context it never saw.
        return replace(problem, context=problem.context.copy(), target_context=problem.context)

    whole = interleaved.measured(lambda given: _estimate(estimator, given), fresh)
    if not job["again"] or whole["seconds"] > LONG:
        return whole
    known = fresh()
    _estimate(estimator, known)
    call = interleaved.measured(lambda _: _estimate(estimator, known), lambda: None)
    return whole | {f"call_{name}": call[name] for name in ("seconds", "cpu_seconds")}


def prepare_peer(job: dict[str, Any]) -> dict[str, Any]:
    """The same logs, and the peer imported and warmed up."""
    import numpy as np

    rng = np.random.default_rng(0)
    small = {
        "context": rng.normal(size=(50, 10)),
        "action": np.arange(50) % 5,
        "reward": rng.normal(size=50),
        "propensity": np.full(50, 0.2),
        "embedding": rng.integers(0, 10, (50, 3)),
        "tables": np.full((5, 10, 3), 0.1),
        "logging": rng.normal(size=(11, 5)),
        "target": rng.normal(size=(11, 5)),
        "epsilon": np.array(0.1),
    }
    for name in ESTIMATORS:
        peer_call(name, small, peer_tables(name, small))
    with np.load(job["data"][2]) as archive:
        return dict(archive)


def peer_tables(name: str, logs: dict[str, Any]) -> dict[str, Any]:
    """The probabilities of all actions that the peer's estimator takes: (n, n_actions, 1)."""
    import numpy as np

    n, n_actions = len(logs["context"]), logs["target"].shape[1]
    design = np.column_stack([np.ones(n), logs["context"]])
    target = np.full((n, n_actions, 1), float(logs["epsilon"]) / n_actions)
    for rows in _chunks(n, n_actions):
        best = (design[rows] @ logs["target"]).argmax(axis=1)
        target[np.arange(rows.start, rows.stop), best, 0] += 1.0 - float(logs["epsilon"])
    if not name.startswith("MIPS"):
        return {"action_dist": target}
    logging = np.empty((n, n_actions, 1))
    for rows in _chunks(n, n_actions):
        block = design[rows] @ logs["logging"]
        block -= block.max(axis=1, keepdims=True)
        np.exp(block, out=block)
        block /= block.sum(axis=1, keepdims=True)
        logging[rows, :, 0] = block
    return {"action_dist": target, "pi_b": logging}


def _chunks(n: int, n_actions: int) -> Iterator[slice]:
    step = max(1, (1 << 20) // n_actions)
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


def peer_call(name: str, logs: dict[str, Any], tables: dict[str, Any]) -> float:
    """The peer's number."""
    import numpy as np
    from obp import ope

    rounds = {"reward": logs["reward"], "action": logs["action"]}
    rounds |= {"position": np.zeros(len(logs["action"]), dtype=int), **tables}
    if name.startswith("MIPS"):
        width = 1 if "1 dim" in name else 3
        rounds["action_embed"] = logs["embedding"][:, :width]
        rounds["context"] = logs["context"]
        if "true" in name:
            rounds["p_e_a"] = logs["tables"][:, :, :width]
        from sklearn.linear_model import LogisticRegression

        peer = ope.MarginalizedInverseProbabilityWeighting(
            n_actions=tables["pi_b"].shape[1],
            pi_a_x_e_estimator=LogisticRegression(max_iter=ITERATIONS, random_state=12345),
        )
        return float(peer.estimate_policy_value(**rounds))
    rounds["pscore"] = logs["propensity"]
    if name == "IPW":
        return float(ope.InverseProbabilityWeighting().estimate_policy_value(**rounds))
    if name == "SNIPW":
        peer = ope.SelfNormalizedInverseProbabilityWeighting()
        return float(peer.estimate_policy_value(**rounds))
    rewards = _peer_rewards(name, logs, tables["action_dist"].shape[1])
    peer = ope.DirectMethod() if name.startswith("DM") else ope.DoublyRobust()
    return float(peer.estimate_policy_value(estimated_rewards_by_reg_model=rewards, **rounds))


def _peer_rewards(name: str, logs: dict[str, Any], n_actions: int) -> np.ndarray[Any, Any]:
    """Its reward model: the pipeline that ours fit, on the features that ours take."""
    import numpy as np
    from obp.ope import RegressionModel
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    features = np.arange(n_actions, dtype=float)[:, None]
    if "one-hot" in name:
        # Ours have a column for each logged action; one never logged has zeros only.
        logged = np.unique(logs["action"])
        features = np.zeros((n_actions, len(logged)))
        features[logged, np.arange(len(logged))] = 1.0
    model = RegressionModel(
        n_actions=n_actions,
        base_model=make_pipeline(StandardScaler(), Ridge()),
        action_context=features,
    )
    predicted: np.ndarray[Any, Any] = model.fit_predict(
        context=logs["context"], action=logs["action"], reward=logs["reward"]
    )
    return predicted


def peer(state: dict[str, Any], job: dict[str, Any]) -> dict[str, Any]:
    """One estimator, whole and again."""
    name = job["estimator"]
    whole = interleaved.measured(
        lambda _: peer_call(name, state, peer_tables(name, state)), lambda: None
    )
    if not job["again"] or whole["seconds"] > LONG:
        return whole
    tables = peer_tables(name, state)
    call = interleaved.measured(lambda _: peer_call(name, state, tables), lambda: None)
    return whole | {f"call_{name}": call[name] for name in ("seconds", "cpu_seconds")}


def unable(name: str, n: int, n_actions: int, memory: float) -> tuple[str | None, str | None]:
    """Why ours and why the peer is not run at a size, from arithmetic."""
    if "one-hot" in name and n * n_actions * (n_actions + 10) > MOST_FEATURES:
        words = f"{n * n_actions * (n_actions + 10):.0e} one-hot features, minutes on both sides"
        return words, words
    needs = next(count for key, count in TABLES.items() if name.startswith(key))
    needs *= 8.0 * n * n_actions / GIB
    words = f"would need about {needs:.0f} GiB" if needs > memory else None
    return None, words


def compare(
    sizes: list[tuple[int, int]], given: argparse.Namespace, sides: dict[str, interleaved.Side]
) -> Iterator[dict[str, Any]]:
    """A row for every estimator and size."""
    with tempfile.TemporaryDirectory() as folder:
        for n, n_actions in sizes:
            data = (n, n_actions, f"{folder}/{n}x{n_actions}.npz")
            for name, tolerance in ESTIMATORS.items():
                job = {
                    "data": data,
                    "estimator": name,
                    "again": "estimated" not in name and "one-hot" not in name,
                    "timeout": given.timeout,
                    "memory": given.memory * GIB,
                }
                refused = dict(zip(sides, unable(name, n, n_actions, given.memory), strict=True))
                # Ours first, whatever happens: it writes the logs that the peer reads.
                asked = {side: asking(sides[side], job, refused[side]) for side in sides}
                found = interleaved.in_turns(asked, seconds=given.budget, most=given.rounds)
                row = row_of(name, n, n_actions, found)
                agreed(row, tolerance)
                print(line(row), flush=True)
                yield row


def asking(
    side: interleaved.Side, job: dict[str, Any], refused: str | None
) -> Callable[[], dict[str, Any]]:
    """How a side is measured, or why not."""
    if refused is not None:
        return lambda: {"failed": f"not run: {refused}"}
    return lambda: side.ask(job)


def row_of(
    name: str, n: int, n_actions: int, found: dict[str, list[dict[str, Any]]]
) -> dict[str, Any]:
    """Medians of each side and the ratios."""
    row: dict[str, Any] = {"estimator": name, "n": n, "n_actions": n_actions}
    figures = ("seconds", "cpu_seconds", "rise_mb", "call_seconds", "call_cpu_seconds")
    for side, runs in found.items():
        failed = [one["failed"] for one in runs if "failed" in one]
        row[side] = {"failed": failed[0]} if failed else {"value": runs[0]["value"]}
        for figure in figures:
            values = [one[figure] for one in runs if figure in one]
            if values:
                row[side][figure] = interleaved.spread(values)
    row["ratios"] = interleaved.ratios(found["ours"], found["peer"], figures)
    return row


def agreed(row: dict[str, Any], tolerance: float | None) -> None:
    """End the comparison where both should have computed the same number and have not."""
    ours, peer = row["ours"].get("value"), row["peer"].get("value")
    if tolerance is None or ours is None or peer is None:
        return
    row["relative_difference"] = abs(ours - peer) / max(abs(peer), 1e-3)
    if not math.isclose(ours, peer, rel_tol=tolerance, abs_tol=1e-3 * tolerance):
        msg = f"{row['estimator']} at {row['n']} x {row['n_actions']}: {ours} is not {peer}"
        raise AssertionError(msg)


def line(row: dict[str, Any]) -> str:
    """A row of the table."""
    from ope_bench.report.tables import figure

    cells = [row["estimator"], f"{row['n']:,}", f"{row['n_actions']:,}"]
    for side in ("ours", "peer"):
        cost = row[side]
        cells.append(
            cost["failed"] if "failed" in cost else figure(1e3 * cost["cpu_seconds"]["median"])
        )
    figures = ("cpu_seconds", "call_cpu_seconds")
    cells += [interleaved.told(row["ratios"].get(figure)) for figure in figures]
    for side in ("ours", "peer"):
        cost = row[side]
        cells.append("-" if "failed" in cost else f"{cost['rise_mb']['median']:,.0f}")
    cells.append(interleaved.told(row["ratios"].get("rise_mb")))
    return f"| {' | '.join(cells)} |"


def intro() -> str:
    """The text in front of the tables."""
    same = ", ".join(name for name, tolerance in ESTIMATORS.items() if tolerance is not None)
    sides = (
        f"The same logs and policies on both sides, sb-obp {obp_peer.VERSION}, in turns,"
        " one thread each. A ratio is the peer's figure over ours, median (lowest to highest) over"
        " rounds; times are of the processor. *whole* is from logs and policies to the number, the"
        " peer's tables of probabilities included; *call* with the tables ready, and with our"
        " target policy's greedy actions known. Memory is the peak rise of *whole*; less than"
        f" {interleaved.LEAST_MEMORY_MB:.0f} MB counts as that. {obp_peer.ALLOCATION}"
    )
    agreement = (
        f"Both compute the same sum: {same}. How far their numbers agree is said below each table."
        " In three dimensions the peer multiplies one-dimensional marginals, ours are joint."
        f" Estimated weights: {ITERATIONS} iterations of scikit-learn's logistic regression on"
        " both sides."
    )
    why = (
        "Exact MIPS weights need the exponential of a score for every row and action, on both"
        " sides; ours go through them chunk by chunk and keep none, hence the memory. On the AMD"
        " EPYC, at 10,000 x 1,000 in one dimension, they are 13 of our 20 ms: exponentials 6,"
        " scores 5, sums over rows of one category, by OpenBLAS, 2; no largest score of a row is"
        " looked for where exponentials cannot overflow. The greedy actions take 6, in single"
        " precision where that is certain to find them. The"
        " target policy's marginal needs a mean per embedding only. The direct"
        " method predicts for every row and action: the peer by scikit-learn's pipeline, ours by"
        " the pipeline's coefficients, with its bits; standardizing contexts and actions once"
        " instead of in every pair is most of what DM and DR save. Ridge regressions are"
        " scikit-learn's on both sides, by the newer release on ours, whose checks of the input"
        " cost more than those of the peer's older one; the scaler before them is fitted by the"
        " sums of `StandardScaler` alone."
        " IPW and SNIPW look up what they need, once the target policy is known:"
        " [actions.md](actions.md)."
    )
    same_library = (
        "Estimated weights by logistic regression: nearly all of the time is"
        " `scipy.optimize.minimize` on scikit-learn's loss, on both sides. Ours calls it without"
        " what `LogisticRegression.fit` of the newer release checks before it and in every"
        " evaluation, to the same bits; for releases whose bits tests have compared, others fit by"
        " themselves. On the AMD EPYC, alone and warm, it took 4.4 of our 5.9 ms and 5.1 of the"
        " peer's 7.7 ms at 1,000 x 10, 38 of 46 and 38 of 47 ms at 10,000 x 10, 162 of 173 and 170"
        " of 186 ms at 1,000 x 1,000."
        " `softmax` is our classifier with the same objective, whose passes over chunks of rows"
        ' are in single precision: `MIPS(classifier="softmax")`, the estimate within 1e-5.'
    )
    return "\n\n".join(
        [
            "# Estimators: ope-bench beside Open Bandit Pipeline",
            sides,
            agreement,
            why,
            same_library,
        ]
    )


def tables(report: dict[str, Any]) -> str:
    """The table of one machine."""
    head = (
        "| estimator | rows | actions | ours, ms | peer, ms | ratio, whole | ratio, call"
        " | ours, MB | peer, MB | ratio |\n"
        "|:---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
    )
    worst = max(row.get("relative_difference", 0.0) for row in report["rows"])
    agree = f"Numbers agree to {worst:.0e}, relatively, where both compute the same sum."
    return "\n".join([head, *map(line, report["rows"]), "", agree])


PAGE = Page(intro(), tables, obp_peer.PEER)


def main() -> int:
    given = obp_peer.options(__doc__.splitlines()[0], rounds=7, budget=6.0, timeout=60.0)
    if given.serve:
        interleaved.serve(
            *{"ours": (prepare_ours, ours), "peer": (prepare_peer, peer)}[given.serve]
        )
        return 0
    return obp_peer.conduct(__file__, given, compare, PAGE)


if __name__ == "__main__":
    raise SystemExit(main())
