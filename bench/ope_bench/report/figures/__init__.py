"""Figures for papers: charts in files, one or two columns wide, each with its caption."""
