"""What several tests share: plugins, tiny worlds, files, a browser."""
