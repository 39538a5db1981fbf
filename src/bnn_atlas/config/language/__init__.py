"""How configuration files are read: YAML, lines of keys, errors, bounds of values. Nothing of any study."""
