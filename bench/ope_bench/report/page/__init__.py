"""Boards, charts and trials as one HTML file that needs no network and no server."""
