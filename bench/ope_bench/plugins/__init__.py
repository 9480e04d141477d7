"""Find, validate and describe plugins, and hash their code."""
