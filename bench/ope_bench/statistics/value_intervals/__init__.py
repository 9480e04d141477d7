"""Intervals of a policy's value from one data set: pure functions of arrays."""
