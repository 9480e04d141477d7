"""Boards and verdicts as text: terminal, Markdown, LaTeX, CSV, JUnit."""
