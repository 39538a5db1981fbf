"""Judging a run: measure its predictions, diagnose its chains, and decide whether it can be trusted."""
