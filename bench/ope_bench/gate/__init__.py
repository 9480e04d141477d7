"""Whether estimators became worse: a baseline's trials run again, paired and judged by row.

===============  ==================================================================
baseline         what was accepted, and its history
baseline_format  one trial per line, so that a change can be reviewed
pairing          a baseline's records with the trials that ask the same of today's code
screening        rows that need no statistical test
decision         verdicts from paired records, with control of false alarms
timing           seconds then and now against a noise floor measured now
comparison       two stores or baselines, setting by setting
session          the order of events: run, retry, judge, extend, time
trial_source     the runner and the store behind a session
verdict          the words: verdicts, rules, and the judgement on a row
===============  ==================================================================
"""
