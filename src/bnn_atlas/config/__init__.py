"""Pydantic models of every file in config/, and the expansion of studies into named runs."""
