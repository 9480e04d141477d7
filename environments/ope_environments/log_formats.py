"""Logs of other platforms: Vowpal Wabbit, GrowthBook, routers of language models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ope_bench import Decision, LogFormat

__all__ = ["GrowthBook", "RouterLines", "VowpalWabbit"]


def scalars(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the numbers, words and lists of numbers of nested objects, names joined by points.

    Names that begin with an underscore are left out, as is null.

    >>> scalars({"User": {"age": 3, "tags": ["a"]}, "_multi": [], "x": [1.0, 2.0]})
    {'User.age': 3, 'x': [1.0, 2.0]}
    """
    found: dict[str, Any] = {}
    for name, value in values.items():
        if name.startswith("_") or value is None:
            continue
        if isinstance(value, Mapping):
            found |= scalars(value, f"{prefix}{name}.")
        elif isinstance(value, list):
            if value and all(isinstance(one, int | float) for one in value):
                found[prefix + name] = [float(one) for one in value]
        else:
            found[prefix + name] = value
    return found


def _clock(rng: np.random.Generator) -> str:
    return f"{int(rng.integers(24)):02d}:{int(rng.integers(60)):02d}:{int(rng.integers(60)):02d}"


class VowpalWabbit(LogFormat):
    """Decisions as JSON lines of Vowpal Wabbit (dsjson), with costs.

    ``a`` are the actions, the chosen one first, and ``p`` their probabilities; ``c`` is the
    context, of which the actions' own features (``_multi``) are left out; ``pdrop`` is the share
    of lines that were dropped. The reward is minus ``_label_cost``.
    """

    lacks = (
        "names of the actions: they are numbers, in the order of `_multi`",
        "features of the actions: give them as `items`",
        "users: rows of one user count as independent; give `unit` where there is one",
    )

    def decision(self, event: Mapping[str, Any]) -> Decision | None:
        """Return the decision; None where the learner was told to skip the line."""
        if "_label_probability" not in event and "a" not in event:
            return None
        skipped = event.get("_skipLearn", event.get("skipLearn"))
        cost = None if skipped else event.get("_label_cost")
        actions, chances = event["a"], event["p"]
        if len(actions) != len(chances):
            msg = f"{len(actions)} actions in `a`, {len(chances)} probabilities in `p`"
            raise ValueError(msg)
        dropped = float(event.get("pdrop") or 0.0)
        named = {str(one): float(p) for one, p in zip(actions, chances, strict=True)}
        return Decision(
            action=str(event.get("_label_Action", actions[0])),
            reward=None if cost is None else 0.0 - float(cost),
            propensity=float(event.get("_label_probability", chances[0])),
            probabilities=named,
            context=scalars(event["c"]),
            time=event.get("Timestamp"),
            weight=1 / (1 - dropped) if dropped else 1.0,
        )

    def example(self, rng: np.random.Generator) -> Mapping[str, Any]:
        """Return an invented line."""
        sport = bool(rng.random() < 0.5)
        chances = np.array([0.1, 0.1, 0.1]) + 0.7 * (np.arange(3) == (2 if sport else 0))
        chosen = int(rng.choice(3, p=chances))
        order = [chosen, *(one for one in range(3) if one != chosen)]
        clicked = rng.random() < (0.4 if (chosen == 2) == sport else 0.1)
        return {
            "_label_cost": -1.0 if clicked else 0.0,
            "_label_probability": float(chances[chosen]),
            "_label_Action": chosen + 1,
            "_labelIndex": chosen,
            "Timestamp": f"2026-03-{1 + int(rng.integers(28)):02d}T{_clock(rng)}Z",
            "EventId": f"{int(rng.integers(1 << 40)):x}",
            "a": [one + 1 for one in order],
            "c": {
                "User": {"sport": "yes" if sport else "no", "age": int(rng.integers(18, 80))},
                "_multi": [{"Article": {"topic": one}} for one in ("news", "arts", "sport")],
            },
            "p": [float(chances[one]) for one in order],
            "VWState": {"m": "invented"},
        }


class GrowthBook(LogFormat):
    """Views of a contextual bandit of GrowthBook with a metric, a line or row each.

    ``variation_id`` counts from 0 in ``variation_weights``, the probabilities in the leaf
    ``leaf_id`` of the version ``bandit_version``; ``attributes`` are the context, ``value`` is the
    metric and ``user_id`` the unit.
    """

    lacks = (
        "names of the variations: they are numbers from 0",
        "conversions that came later than the export: leave out rows that are too young",
        "views without a value: they are left out; write 0 where none means no conversion",
    )

    def decision(self, event: Mapping[str, Any]) -> Decision | None:
        """Return the decision; None where the view was outside of the bandit."""
        weights = event.get("variation_weights")
        if weights is None:
            return None
        number, value = float(event["variation_id"]), event.get("value")
        chosen = int(number)
        if chosen != number or not 0 <= chosen < len(weights):
            msg = f"variation_id {number:g} is none of {len(weights)} variation_weights"
            raise ValueError(msg)
        user = event.get("user_id")
        return Decision(
            action=str(chosen),
            reward=None if value is None else float(value),
            propensity=float(weights[chosen]),
            probabilities={str(k): float(one) for k, one in enumerate(weights)},
            context={"leaf_id": str(event["leaf_id"]), **scalars(event.get("attributes") or {})},
            unit=None if user is None else str(user),
            time=event.get("timestamp"),
            other={"bandit_version": event.get("bandit_version")},
        )

    def example(self, rng: np.random.Generator) -> Mapping[str, Any]:
        """Return an invented line."""
        mobile = bool(rng.random() < 0.6)
        weights = [0.2, 0.3, 0.5] if mobile else [0.6, 0.3, 0.1]
        chosen = int(rng.choice(3, p=weights))
        bought = rng.random() < (0.3 if chosen == (2 if mobile else 0) else 0.15)
        return {
            "timestamp": f"2026-09-{1 + int(rng.integers(28)):02d}T{_clock(rng)}Z",
            "user_id": f"u{int(rng.integers(100_000))}",
            "experiment_id": "invented",
            "variation_id": chosen,
            "leaf_id": 1 + mobile,
            "bandit_version": 3,
            "variation_weights": weights,
            "attributes": {"device": "mobile" if mobile else "desktop"},
            "value": float(bought),
        }


class RouterLines(LogFormat):
    """Decisions of a router of language models, a JSON line each.

    ``model`` answered; ``propensity`` is its probability, or ``weights`` those of all models by
    name; ``quality`` is the reward, named ``reward`` in the log. ``cost`` stays a column,
    ``embedding`` and ``features`` are the context, ``session`` the unit, ``timestamp`` the time.
    """

    lacks = (
        "a judge's error: quality is taken as it is, under the name `reward`",
        "a second reward: for costs, too, write `reward: [reward, cost]`",
        "requests that were never answered: count them, and name `decisions`",
    )

    def decision(self, event: Mapping[str, Any]) -> Decision | None:
        """Return the decision; None where no model answered."""
        model, weights = event.get("model"), event.get("weights") or {}
        if model is None:
            return None
        if weights and model not in weights:
            msg = f"model '{model}' is not among its weights"
            raise ValueError(msg)
        total = sum(map(float, weights.values()))
        if weights and total <= 0:
            msg = f"the weights of {', '.join(weights)} sum to {total:g}; expected a positive sum"
            raise ValueError(msg)
        chances = {name: float(one) / total for name, one in weights.items()}
        given, quality = event.get("propensity"), event.get("quality")
        given = chances.get(model) if given is None else given
        context = scalars(event.get("features") or {})
        if event.get("embedding") is not None:
            context["embedding"] = [float(one) for one in event["embedding"]]
        session = event.get("session")
        return Decision(
            action=str(model),
            reward=None if quality is None else float(quality),
            propensity=None if given is None else float(given),
            probabilities=chances,
            context=context,
            unit=None if session is None else str(session),
            time=event.get("timestamp"),
            other={"cost": event.get("cost")},
        )

    def example(self, rng: np.random.Generator) -> Mapping[str, Any]:
        """Return an invented line."""
        hard = float(rng.normal())
        weights = {"small": 0.5, "large": 0.5} if hard < 0 else {"small": 0.2, "large": 0.8}
        model = "small" if rng.random() < weights["small"] else "large"
        skill = 0.5 if model == "small" else 1.5
        return {
            "request": f"r{int(rng.integers(1 << 30))}",
            "timestamp": int(1_790_000_000 + rng.integers(2_000_000)),
            "session": f"s{int(rng.integers(1 << 30))}",
            "model": model,
            "weights": weights,
            "quality": float(rng.random() < 1 / (1 + np.exp(hard - skill))),
            "cost": round(float(rng.uniform(1, 2)) * (0.001 if model == "small" else 0.015), 6),
            "features": {"tokens": int(rng.integers(20, 2000))},
            "embedding": [round(hard, 3), round(float(rng.normal()), 3)],
        }
