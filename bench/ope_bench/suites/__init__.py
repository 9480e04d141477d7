"""Suites of trials: files, selectors, and the manifest that crosses them into trials.

The suites that come with ope-bench are the YAML files in this package.
"""
