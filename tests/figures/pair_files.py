"""Tables of pairs of networks as the rule `barriers` writes them."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bnn_atlas.figures.shown import Shown
from bnn_atlas.metrics.tables.parquet import LINE_SCHEMA, MATCH_SCHEMA, write_frame

from .shown import shown

HEIGHT = {"as_trained": 1.0, "planted": 0.1, "aligned": 0.0}
POINTS = np.linspace(0, 1, 5)
UNITS, CEILING = 16, 12.6


def pair_run(folder: Path, name: str, planted: list[int | None], draws: int = 3, **changes: Any) -> Shown:
    """A run of one pair per entry of `planted`: barriers are HEIGHT times NoT / 10 after training, NoT what is planted.

    The loss along a line is 0.3 plus a parabola; the error is a tenth of the loss.
    """
    lines, matches = [], []
    for i, count in enumerate(planted):
        transpositions = 12 if count is None else count
        for draw in range(draws):
            for state, height in HEIGHT.items():
                if state == "planted" and count is None:
                    continue
                bump = 4 * POINTS * (1 - POINTS) * height * transpositions / 10 * (draw > 0)
                for rows in ("train", "test"):
                    losses = 0.3 + bump + 0.1 * (rows == "test")
                    points = zip(POINTS, losses, losses / 10, strict=True)
                    lines += [(2 * i, 2 * i + 1, draw, state, rows, *values) for values in points]
                found = transpositions + (draw == draws - 1) if state == "as_trained" else int(state == "planted")
                inside = [1.0] if state == "planted" else [0.5, 1.0]
                distance = 10.0 * transpositions * height + draw
                matches += [
                    (2 * i, 2 * i + 1, draw, state, point, count, found, CEILING, UNITS, distance) for point in inside
                ]
    files = {name: folder / f"{name}.parquet" for name in ("lines", "matches")}
    folder.mkdir(parents=True, exist_ok=True)
    write_frame(files["lines"], pd.DataFrame(lines, columns=LINE_SCHEMA.names), LINE_SCHEMA)
    frame = pd.DataFrame(matches, columns=MATCH_SCHEMA.names).astype({"planted": "Int64"})
    write_frame(files["matches"], frame, MATCH_SCHEMA)
    common = {"method": "path", "task": "classification", "likelihood": "categorical", "hidden": (UNITS,)}
    return shown(name, files, **{**common, **changes})
