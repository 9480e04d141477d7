"""Finite populations of contexts from data sets: policies, sampling, exact values."""
