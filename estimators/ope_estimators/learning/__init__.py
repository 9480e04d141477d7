"""Training of models: learners by name, networks, folds, many models at once."""
