"""Parameters of estimators and environments: declared, validated, described."""
