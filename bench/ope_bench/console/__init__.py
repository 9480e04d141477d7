"""Output to stdout and stderr, as text or as one JSON document."""
