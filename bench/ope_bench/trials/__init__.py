"""Run one trial: sample, view, fit, estimate, time and classify; its record.

All numbers of boards are computed from this package and `ope_bench.contracts`.
"""
