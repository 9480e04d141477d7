"""Boards and verdicts for readers: terminal, Markdown, LaTeX, CSV, charts, one HTML page."""
