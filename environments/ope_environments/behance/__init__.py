"""The Behance appreciates as a semi-synthetic world: files, preparation, surrogate, world."""
