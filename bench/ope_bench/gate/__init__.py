"""The gate: a baseline's trials run again, paired, and judged row by row.

========  ====================================================================
pairing   a baseline's records and the trials that ask the same of today's code
judging   what became of each row; pure functions of paired records
timing    seconds then and now against a noise floor measured now
session   the order of events: run, retry, judge, extend, time
========  ====================================================================
"""
