"""Mutation testing: whether the tests notice changes of the code."""
