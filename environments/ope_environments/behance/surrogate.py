"""Generated data with the published marginals, used without the raw files."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ope_bench import FloatArray, IntArray, ParameterError, stream
from ope_environments.behance.components import exact_components
from ope_environments.behance.layout import WIDTH
from ope_environments.behance.prepared import Prepared, count_appreciates
from ope_environments.behance.rank_size import rank_sizes
from ope_environments.behance.raw import Ids, Pairs

__all__ = ["ACTIVE_FEATURES", "Surrogate", "generate", "prepared_surrogate"]

SINGLE_SHARE, DOUBLE_SHARE = 15_938 / 63_497, 8_388 / 63_497
"""Shares of the published users with exactly one and exactly two appreciates."""

ITEM_LAW = {"exponent": 0.6, "shift": 2.0}
USER_LAW = {"exponent": 0.62, "shift": 5.0}
"""At the published size the largest counts are 1,815 and 1,527 for items, where the published ones
are about 1,790 and 1,530, and 2,297 for users, where it is about 2,270. The item of an appreciate
is more popular than a random item with probability .71; by training popularity it is .74."""

CREATOR_SHARE = 0.003
"""Share of the appreciates that come from creators."""

SECOND_OWNER_SHARE = 0.02
ACTIVE_FEATURES = 64
"""Features that are not constantly zero; the rest of the 4,096 are."""

LATENT_DIMENSIONS = 8
POPULARITY_CORRELATION = 0.3
"""Correlation between the first latent dimension of an item's image and the normal score of its
popularity's rank: images predict popularity, but only partly."""

CREATOR_TASTE = 1.0
"""Creators appreciate exp(taste * second latent dimension) times as often as others.

Hence the best item depends on the context.
"""


@dataclass(frozen=True, eq=False)
class Surrogate:
    """Generated raw data.

    Parameters
    ----------
    appreciates : in the order of time.
    owners : in the order of items; some items have two.
    item : (n_items,), sorted ids.
    features : (n_items, 64), the active ones, non-negative.
    column : (64,), their columns among the 4,096.
    featureless : the one item without features.
    label : description of the surrogate.
    """

    appreciates: Pairs
    owners: Pairs
    item: Ids
    features: np.ndarray
    column: IntArray
    featureless: int
    label: str


def generate(items: int, users: int, appreciates: int, seed: int) -> Surrogate:
    """Generate raw data of a given size.

    Users' and items' numbers of appreciates follow the published marginals exactly; pairs are a
    random matching of the two, except for creators' taste, so that a pair may repeat.

    Raises
    ------
    ParameterError : so many users and items need more appreciates.
    """
    single, double = round(SINGLE_SHARE * users), round(DOUBLE_SHARE * users)
    rest = users - single - double
    least = max(items, single + 2 * double + 3 * rest)
    if appreciates < least:
        msg = (
            f"behance: appreciates = {appreciates} is too few: {users} users and {items} items"
            f" need at least {least}"
        )
        raise ParameterError(msg)
    rng = stream("behance surrogate", items, users, appreciates, seed)
    per_item = rank_sizes(items, appreciates, 1, **ITEM_LAW)
    heavy = appreciates - single - 2 * double
    per_user = np.concatenate(
        [rank_sizes(rest, heavy, 3, **USER_LAW), np.full(double, 2), np.full(single, 1)]
    )
    per_item, per_user = rng.permutation(per_item), rng.permutation(per_user)
    user_id = rng.choice(10 * users + 1000, users, replace=False) + 1
    item = np.sort(rng.choice(min(12 * items + 1000, 99_999_999), items, replace=False)) + 1
    ids = np.char.zfill(item.astype("S8"), 8)
    creator = _creators(per_user, items, rng)
    latent = _latent(per_item, rng)
    chosen_user, chosen_item = _matched(per_user, per_item, creator, latent[:, 1], rng)
    # In random order of time, because the matching has no order.
    order = rng.permutation(appreciates)
    events = Pairs(user_id[chosen_user[order]], ids[chosen_item[order]], appreciates)
    features, column = _features(latent, rng)
    label = (
        f"surrogate (items={items:,}, users={users:,}, appreciates={appreciates:,}, seed={seed})"
    )
    return Surrogate(
        events,
        _owners(ids, user_id, creator, rng),
        ids,
        features,
        column,
        int(rng.integers(items)),
        label,
    )


def _creators(per_user: IntArray, items: int, rng: np.random.Generator) -> IntArray:
    """Choose creators among the users at random, until they have their share."""
    order = rng.permutation(len(per_user))
    reached = np.cumsum(per_user[order]) / per_user.sum()
    return order[: min(items, 1 + int((reached < CREATOR_SHARE).sum()))]


def _matched(
    per_user: IntArray,
    per_item: IntArray,
    creator: IntArray,
    taste: FloatArray,
    rng: np.random.Generator,
) -> tuple[IntArray, IntArray]:
    """Match users and items of all appreciates, preserving their numbers: (n,), (n,)."""
    user = np.repeat(np.arange(len(per_user)), per_user)
    item = rng.permutation(np.repeat(np.arange(len(per_item)), per_item))
    theirs = np.isin(user, creator)
    # The largest values of log weight + Gumbel noise are a weighted sample without replacement.
    key = CREATOR_TASTE * taste[item] + rng.gumbel(size=len(item))
    n_theirs = int(theirs.sum())
    liked = np.zeros(len(item), dtype=bool)
    liked[np.argpartition(-key, n_theirs)[:n_theirs] if n_theirs < len(item) else slice(None)] = 1
    matched = np.empty(len(item), dtype=np.int64)
    matched[theirs] = rng.permutation(item[liked])
    matched[~theirs] = item[~liked]
    return user, matched


def _owners(ids: Ids, user_id: IntArray, creator: IntArray, rng: np.random.Generator) -> Pairs:
    """Assign items to creators: the creators among the users, and others who are no users."""
    items = len(ids)
    outside = np.arange(1, 1 + items // 3) + int(user_id.max())
    owner = np.concatenate([user_id[creator], rng.choice(outside, items - len(creator))])
    owner = rng.permutation(owner)
    second = np.flatnonzero(rng.random(items) < SECOND_OWNER_SHARE)
    at = np.concatenate([np.arange(items), second])
    who = np.concatenate([owner, rng.choice(owner, len(second))])
    line = np.argsort(at, kind="stable")
    return Pairs(who[line].astype(np.int64), ids[at[line]], len(line))


def _latent(per_item: IntArray, rng: np.random.Generator) -> FloatArray:
    """Draw latent features of images: (n_items, 8)."""
    from scipy.special import ndtri

    items = len(per_item)
    rank = np.empty(items)
    rank[np.argsort(per_item, kind="stable")] = (np.arange(items) + 0.5) / items
    latent = rng.standard_normal((items, LATENT_DIMENSIONS))
    noise_share = np.sqrt(1.0 - POPULARITY_CORRELATION**2)
    latent[:, 0] = POPULARITY_CORRELATION * ndtri(rank) + noise_share * latent[:, 0]
    return latent


def _features(latent: FloatArray, rng: np.random.Generator) -> tuple[np.ndarray, IntArray]:
    """Compute rectified features of low rank, like the last layers of an image network."""
    # Decreasing strengths, so that a few components explain much of the variance, but not all.
    strength = 0.8 ** np.arange(LATENT_DIMENSIONS)
    loading = rng.standard_normal((LATENT_DIMENSIONS, ACTIVE_FEATURES)) * strength[:, None]
    features = np.maximum(latent @ loading, 0.0).astype(np.float32)
    return features, np.sort(rng.choice(WIDTH, ACTIVE_FEATURES, replace=False))


@lru_cache(maxsize=2)
def prepared_surrogate(
    items: int, users: int, appreciates: int, seed: int, n_components: int
) -> Prepared:
    """Return the data that preparing the surrogate's raw files would give."""
    raw = generate(items, users, appreciates, seed)
    kept = np.delete(np.arange(items), raw.featureless)
    counts, share = count_appreciates(raw.item[kept], raw.appreciates, raw.owners)
    scores, explained = exact_components(raw.features[kept], n_components)
    return Prepared(raw.item[kept], counts, scores, explained, share, raw.label)
