"""Settings of the documentation site.

``sphinx-build -W -c bench/docs -d build/doctrees . build/site`` in a checkout builds it. The
source folder is the whole checkout, so that a link between two Markdown files works here and in
the repository alike.
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path

from ope_bench import __version__

sys.path.insert(0, str(Path(__file__).parent))

from plugin_pages import repository

# Documents are kept whole, as circles of nodes: to look for garbage among them frees nothing.
gc.set_threshold(100_000)

project = "ope-bench"
author = "ope-bench contributors"
copyright = author  # noqa: A001  the name that Sphinx reads
release = version = __version__

root_doc = "bench/docs/index"
include_patterns = [
    *("bench/docs/**.md", "bench/README.md", ".github/CONTRIBUTING.md"),
    # Pages of results; boards of suites have pages that are made from their numbers.
    *("results/[a-z]*.md", "results/README.md", "results/*/README.md"),
]
exclude_patterns = [".git", ".venv", "build", "tests", "bench/docs/gallery"]
extensions = ["myst_parser", "sphinx.ext.autodoc", "docstring_sections"]
extensions += ["plugin_pages", "board_pages", "gallery_pages", "site_links"]

# Generated pages go from the title to headings of the third level.
suppress_warnings = ["myst.header"]
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]

autodoc_default_options = {"members": True, "show-inheritance": True, "no-value": True}
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
# Counted with the names of modules, which are not shown.
maximum_signature_line_length = 120
default_role = "py:obj"
python_use_unqualified_type_names = True

html_theme = "pydata_sphinx_theme"
html_title = "ope-bench"
html_context = {"default_mode": "auto", "repository": repository()}
html_copy_source = False
html_show_sphinx = False
html_search_scorer = str(Path(__file__).parent / "_static" / "search_scorer.js")
html_sidebars = {"**": ["globaltoc.html"]}
html_additional_pages = {"index": "forward.html"}
templates_path = ["_templates"]
html_static_path = ["_static"]
html_extra_path = ["llms.txt"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_theme_options = {
    "navigation_with_keys": False,
    "show_prev_next": False,
    "secondary_sidebar_items": {"**": ["page-toc"], "bench/docs/index": []},
    "navbar_center": ["doors.html"],
    "navbar_end": ["repository.html", "theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
