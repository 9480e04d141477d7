"""Where things lie in this repository."""

from pathlib import Path

__all__ = ["ACME", "BLOCK_PLUGINS", "README", "RESULTS", "ROOT", "SUPPORT", "TINY_PLUGINS"]

SUPPORT = Path(__file__).resolve().parent
ROOT = SUPPORT.parents[1]
README = ROOT / "README.md"
RESULTS = ROOT / "results"
ACME = ROOT / "tests" / "plugins" / "acme-ope"
TINY_PLUGINS = SUPPORT / "tiny_plugins.py"
BLOCK_PLUGINS = SUPPORT / "block_plugins.py"
