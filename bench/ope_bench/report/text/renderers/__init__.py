"""Renderers of tables: terminal, Markdown, LaTeX, CSV."""
