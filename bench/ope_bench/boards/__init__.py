"""Boards of estimators: rows aggregated from records, with scores, ranks, ties and summaries."""
