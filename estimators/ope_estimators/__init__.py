"""The built-in estimators of ope-bench, one per file."""
