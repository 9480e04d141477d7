"""Embedded estimators with known embedding distribution p(g|a)."""
