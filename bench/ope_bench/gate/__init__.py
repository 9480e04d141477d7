"""Tests for regressions: a baseline's trials run again, paired and judged by row.

==============  ===================================================================
baseline        what was accepted, and its history: one trial per line, for reviews
pairing         a baseline's records with the trials that ask the same of today's code
verdict         the verdict on each row, with control of false alarms
session         the order of events: run, retry, judge
comparison      two stores or baselines, row by row
verdict_tables  verdicts for a terminal, a reviewer, JUnit, GitHub, and as JSON
==============  ===================================================================
"""
