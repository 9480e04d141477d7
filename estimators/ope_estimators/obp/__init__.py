"""Estimators of an installed Open Bandit Pipeline, on the same data as all others.

Nothing of it comes with ope-bench: `pip install "ope-bench[obp]"`.
"""
