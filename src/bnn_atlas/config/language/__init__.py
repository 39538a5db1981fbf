"""How configuration files are read: YAML, lines of keys, errors, bounds of values. It knows no study."""
