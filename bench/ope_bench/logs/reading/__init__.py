"""Read a log: its description, its tables, and the forms of policies."""
