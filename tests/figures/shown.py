"""Runs as figures are shown them."""

from pathlib import Path
from typing import Any

from bnn_atlas.figures.shown import Shown


def shown(run: str = "mile", files: dict[str, Path] | None = None, **changes: Any) -> Shown:
    """A regression by MILE with two hidden layers, apart from `changes`."""
    common: dict[str, Any] = {
        "study": "s", "run": run, "entry": run, "label": run, "point": {}, "dataset": "airfoil",
        "dataset_title": changes.get("dataset", "airfoil").capitalize(), "task": "regression",
        "model": "mlp 16x16 relu", "hidden": (16, 16), "method": "mclmc", "likelihood": "learned_noise",
        "prior_sd": 1.0, "energy_variance": 0.1, "split": 0, "chains": 10, "set_titles": {},
    }  # fmt: skip
    return Shown(**{"parts": {}, **common, **changes}, files=files or {})
