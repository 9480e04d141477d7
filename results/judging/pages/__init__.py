"""Pages of results: one module a page; `texts.yaml` has the words, trials the figures."""
