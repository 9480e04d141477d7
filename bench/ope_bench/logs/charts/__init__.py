"""Charts of estimates on a log, for notebooks and pages."""
