"""Policies that are learned: classifiers of labels, or of the actions of a log."""
