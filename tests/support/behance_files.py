"""Small raw files in the published layout, written without the project's own writer."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

APPRECIATES = [
    (276633, "01588231"),
    (1238354, "00000007"),
    (165550, "00485000"),
    (2173258, "00776972"),
    (165550, "00000007"),
    (900, "01588231"),
    (900, "00485000"),
    (901, "00485000"),
    (165550, "01398047"),
]
OWNERS = [
    ("01588231", 900),
    ("01588231", 901),
    ("00000007", 55),
    ("00485000", 56),
]
"""Users 900 and 901 are creators who appreciate; 00000007 has one owner, 01588231 two."""

FEATURES = ["00776972", "01588231", "00000007", "00485000", "02000000"]
"""01398047 is appreciated without features; 02000000 has features without appreciates."""


def row_of(item: str) -> list[float]:
    """The 4,096 features of an item, most of them zero."""
    k = FEATURES.index(item)
    row = [0.0] * 4096
    row[10], row[2000], row[4095] = 1.0 + k, (k * k) % 3, 0.5 * (k % 2)
    return row


def write(folder: Path, *, packed: bool = True) -> Path:
    """Write the three files."""
    text = "".join(f"{u} {i} {1307583271 + k}\n" for k, (u, i) in enumerate(APPRECIATES))
    owners = "".join(f"{item} {user}\n" for item, user in OWNERS)
    for name, content in (
        ("Behance_appreciate_1M.gz", text.encode()),
        ("Behance_Item_to_Owners.gz", owners.encode()),
    ):
        (folder / name).write_bytes(gzip.compress(content) if packed else content)
    records = b"".join(item.encode() + struct.pack("<4096f", *row_of(item)) for item in FEATURES)
    (folder / "Behance_Image_Features.b").write_bytes(records)
    return folder
