"""The three published files: names, formats, published counts, where to get them."""

from __future__ import annotations

import numpy as np

__all__ = [
    "APPRECIATES",
    "FEATURES",
    "FILES",
    "FIRST_SECOND",
    "LAST_SECOND",
    "OWNERS",
    "PUBLISHED",
    "RECORD",
    "RECORD_BYTES",
    "SURROGATE_MARK",
    "WHERE_TO_GET",
    "WIDTH",
]

APPRECIATES = "Behance_appreciate_1M.gz"
"""Text with lines ``user_id item_id unix_time``."""

OWNERS = "Behance_Item_to_Owners.gz"
"""Text with lines ``item_id user_id``; an item with several creators has several lines."""

FEATURES = "Behance_Image_Features.b"
"""Binary records: an item id of 8 ASCII digits, then 4,096 little-endian 32-bit floats."""

FILES = (APPRECIATES, OWNERS, FEATURES)

WIDTH = 4096
RECORD = np.dtype([("id", "S8"), ("x", "<f4", (WIDTH,))])
RECORD_BYTES = RECORD.itemsize

PUBLISHED = {"appreciates": 1_000_000, "users": 63_497, "items": 178_788, "features": 178_787}
"""Counts of the published files. One appreciated item, 01398047, has no features."""

FIRST_SECOND, LAST_SECOND = 1_307_583_271, 1_321_228_800
"""June 9 to November 14, 2011."""

SURROGATE_MARK = "SURROGATE.txt"
"""Name of a file that marks generated files, so that data prepared from them are labeled."""

WHERE_TO_GET = (
    "the data of 'Vista' (He, Fang, Wang and McAuley, 2016) are at"
    " https://cseweb.ucsd.edu/~jmcauley/datasets.html#behance:"
    f" put {APPRECIATES}, {OWNERS} and {FEATURES} into one folder,"
    " then run `ope-bench data behance --from FOLDER`"
)
