"""One run judged: its predictions measured, its chains diagnosed, and whether it can be trusted."""
