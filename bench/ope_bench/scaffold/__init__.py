"""Create new plugin packages from templates."""

from __future__ import annotations

from ope_bench.scaffold.names import Names, names_for
from ope_bench.scaffold.source import PluginSource, read_source
from ope_bench.scaffold.writer import write_package

__all__ = ["Names", "PluginSource", "names_for", "read_source", "write_package"]
