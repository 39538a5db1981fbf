"""R-hat of the weights, next to R-hat of the functions that they represent."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from bnn_atlas.figures import page, style
from bnn_atlas.figures.axes import remark, rhat_axis
from bnn_atlas.figures.page import Drawing
from bnn_atlas.figures.shown import Shown
from bnn_atlas.files import read_parquet
from bnn_atlas.metrics.gathering.chain_convergence import PLAIN
from bnn_atlas.metrics.judgement.checks import RHAT

KIND = {
    "files": ["parameters", "function_values"], "needs": ["several chains", "several draws"], "most_labels": 4,
    "repeats": ["label"],
    "columns": "label space form kind low high share total left_out",
}  # fmt: skip

SPACES = {"parameters": "weights", "function_values": "function values at test rows"}
"""File -> what its quantities are."""
FORMS = {"rhat": "rank-normalised, of half chains", PLAIN: "plain, of whole chains (Gelman and Rubin)"}
"""Column of the files -> which R-hat it is."""
EDGES = 1 + 10.0 ** np.linspace(-3.5, 2, 45)
"""Values of R-hat below the first edge count in the first bin, values above the last edge in the last bin."""
LOOKS: dict[str, dict[str, Any]] = {
    "rhat": {"color": style.BLUE, "fill": True, "alpha": 0.45},
    PLAIN: {"color": style.BLACK, "lw": 1.0, "ls": (0, (3, 1.5))},
}
"""How the histograms are drawn."""


def rhat_histograms(shown: Sequence[Shown]) -> Drawing:
    """Histograms of R-hat over weights (left) and function values (right), a row per label, and shares below the limit.

    Two forms of R-hat are shown: the rank-normalised split R-hat of Vehtari et al. 2021, by which chains are judged,
    and the plain one (`rhat_ess.gelman_rubin`). The x axis is logarithmic in R-hat - 1.

    The numbers pool all runs and splits of a label. Rows of `kind` `bin` have low, high and share of a bin; one row of
    kind `at most 1.1` for each label, space and form has the share of the quantities up to that limit, `total` (how
    many have an R-hat) and `left_out` (how many have none, since their draws are constant or not finite). Raises
    ValueError for a file without the plain R-hat, and if no quantity has one (a single
    chain).
    """
    labels = list(dict.fromkeys(one.label for one in shown))
    rows = []
    for label in labels:
        for file, space in SPACES.items():
            frames = [_read(one, file) for one in shown if one.label == label]
            for column, form in FORMS.items():
                values = np.concatenate([frame[column].to_numpy(dtype=float) for frame in frames])
                common = {"label": label, "space": space, "form": form}
                rows += [{**common, **row} for row in _shares(values, f"{label}: {space}")]
    table = pd.DataFrame(rows).astype({"total": "Int64", "left_out": "Int64"})
    figure = Figure(figsize=(style.TEXT_WIDTH, 1.85 * len(labels) + 0.55))
    axes = figure.subplots(len(labels), len(SPACES), squeeze=False)
    for label, row in zip(labels, axes, strict=True):
        for space, ax in zip(SPACES.values(), row, strict=True):
            _panel(ax, table[(table["label"] == label) & (table["space"] == space)])
            ax.set_title(space)
        row[0].set_ylabel("share" if len(labels) == 1 else f"{label}\nshare")
    for ax in axes[-1]:
        ax.set_xlabel("R-hat")
    limit = {"color": style.GREY, "lw": 0.8, "ls": "--"}
    filled = Patch(color=style.BLUE, alpha=0.45, lw=0)
    page.legend_below(figure, {FORMS["rhat"]: filled, FORMS[PLAIN]: LOOKS[PLAIN], f"limit {RHAT.look:g}": limit})
    return Drawing(figure, table)


def _read(one: Shown, name: str) -> pd.DataFrame:
    file = one.files[name]
    frame = read_parquet(file)
    if missing := [column for column in FORMS if column not in frame]:
        raise ValueError(f"{file}: no column {', '.join(missing)}; delete it and run the metrics of {one.run} again")
    return frame


def _shares(values: np.ndarray, where: str) -> list[dict[str, object]]:
    """Rows of one histogram; infinite values are above the last edge."""
    defined = values[~np.isnan(values)]
    if not len(defined):
        raise ValueError(f"{where}: no R-hat is defined; it needs two chains of four draws that are not constant")
    shares = np.histogram(defined.clip(EDGES[0], EDGES[-1]), bins=EDGES)[0] / len(defined)
    bins: list[dict[str, object]] = [
        {"kind": "bin", "low": low, "high": high, "share": share}
        for low, high, share in zip(EDGES[:-1], EDGES[1:], shares, strict=True)
    ]
    below = float((defined <= RHAT.look).mean())
    total = {"total": len(defined), "left_out": len(values) - len(defined)}
    return [*bins, {"kind": f"at most {RHAT.look:g}", "high": RHAT.look, "share": below, **total}]


def _panel(ax: Axes, table: pd.DataFrame) -> None:
    place, texts, height = np.log10(EDGES - 1), [], 0.0
    left_out = 0
    for column, form in FORMS.items():
        part = table[table["form"] == form]
        shares = part.loc[part["kind"] == "bin", "share"].to_numpy(dtype=float)
        ax.stairs(shares, place, **LOOKS[column])
        height = max(height, shares.max())
        below = part[part["kind"] != "bin"].iloc[0]
        total = int(below["total"])
        prefix = "plain: " if column == PLAIN else ""
        texts.append(f"{prefix}{below['share']:.1%} of {total:,} at most {RHAT.look:g}")
        left_out = max(left_out, int(below["left_out"]))
    if left_out:
        texts.append(f"{left_out:,} without R-hat: constant draws")
    remark(ax, texts)
    filled = table.loc[(table["kind"] == "bin") & (table["share"] > 0), "high"].max()
    rhat_axis(ax, EDGES[0] - 1, max(filled, 2 * RHAT.look - 1) - 1)
    ax.set_ylim(0, 1.05 * height)
