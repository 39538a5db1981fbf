"""Settings of the methods, one file per family; importable without JAX."""
