"""The suites that come with ope-bench, one YAML file each."""
