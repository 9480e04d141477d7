"""The gate: a baseline's trials run again, paired, and judged row by row.

=========  ===================================================================
pairing    a baseline's records and the trials that ask the same of today's code
verdict    the words: verdicts, rules, and the judgement on a row
examining  what can be said of a row without a test
judging    what became of each row; pure functions of paired records
timing     seconds then and now against a noise floor measured now
session    the order of events: run, retry, judge, extend, time
bench      where the trials run: through the runner into a store
=========  ===================================================================
"""
