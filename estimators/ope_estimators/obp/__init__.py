"""Estimators of an installed Open Bandit Pipeline, on the same data as all others.

The Pipeline is not part of ope-bench: `pip install "ope-bench[obp]"`.
"""
