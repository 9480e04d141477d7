"""Files that come with installed packages; the readers of tables are public names."""
