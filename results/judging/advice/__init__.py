"""The pages of what ope-bench recommends, and whether it holds."""
