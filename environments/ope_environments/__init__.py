"""The built-in environments of ope-bench."""
