"""The verbs of `results/regenerate`, one a module: `main` takes the words behind the verb."""
