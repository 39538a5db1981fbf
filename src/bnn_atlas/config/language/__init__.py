"""Reading of configuration files: YAML, lines of keys, errors, bounds of values; independent of any study."""
