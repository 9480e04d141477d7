"""Tests for regressions: a baseline's trials run again, paired and judged by row.

==============  ==========================================================================
baseline        what was accepted, and its history: one trial per line, for reviews; its records
                paired with the trials that ask the same of today's code
verdict         the verdict on each row, with control of false alarms
session         the order of events: run, retry, judge; or two stores or baselines, row by row
verification    committed results: files against each other, and a part of their trials again
verdict_tables  verdicts for a terminal, a reviewer, JUnit, GitHub, and as JSON
==============  ==========================================================================
"""
