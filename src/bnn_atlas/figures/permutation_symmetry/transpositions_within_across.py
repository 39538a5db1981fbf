"""Numbers of transpositions between draws of one chain and of different chains."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from bnn_atlas.figures import style
from bnn_atlas.figures.page import Drawing
from bnn_atlas.figures.permutation_symmetry.frames import alignments
from bnn_atlas.figures.shown import Shown
from bnn_atlas.symmetry.aligned_draws import load_aligned_draws
from bnn_atlas.symmetry.permutation import ceiling

KIND = {"files": ["aligned_draws"]}

MOST = 8
"""Alignments in one figure."""
WHERE = {"within": ("within chains", style.BLUE, "o"), "across": ("across chains", style.VERMILION, "s")}
"""Kind of a pair -> its text, colour and mark."""


def transpositions_within_across(shown: Sequence[Shown]) -> Drawing:
    """Transpositions between draws matched to each other directly, as a share of the mean of random permutations.

    Numbers are those of `pair_table`.
    """
    table = pair_table(shown)
    return Drawing(_figure(table), table)


def pair_table(shown: Sequence[Shown]) -> pd.DataFrame:
    """A row per pair: `where` it is, `transpositions` (summed over groups), their `ceiling` and the `share` of it.

    Raises ValueError as `frames.alignments` does.
    """
    rows: list[dict[str, object]] = []
    for one in alignments(shown, "aligned_draws", MOST):
        draws = load_aligned_draws(one.file)
        most = sum(ceiling(int(size)) for size in draws.sizes)
        within = draws.pair_chains[:, 0] == draws.pair_chains[:, 1]
        for inside, found in zip(within, draws.transpositions.sum(axis=1), strict=True):
            where = "within" if inside else "across"
            common = {"label": one.label, "alignment": one.alignment, "where": where}
            rows.append({**common, "transpositions": int(found), "ceiling": most, "share": found / most})
    return pd.DataFrame(rows)


def _figure(table: pd.DataFrame) -> Figure:
    labels = list(dict.fromkeys(table["label"]))
    figure = Figure(figsize=(style.TEXT_WIDTH, 0.62 * len(labels) + 0.75))
    ax = figure.subplots()
    generator = np.random.default_rng(0)
    for place, label in enumerate(labels):
        part = table[table["label"] == label]
        for side, (where, (text, colour, mark)) in zip((0.2, -0.2), WHERE.items(), strict=True):
            share = part.loc[part["where"] == where, "share"].to_numpy(dtype=float)
            if not len(share):
                continue
            height = -place + side + generator.uniform(-0.1, 0.1, len(share))
            name = text if label == next(iter(_labels_with(table, where))) else None
            ax.plot(share, height, mark, ms=2.5, color=colour, alpha=0.4, mew=0, label=name)
            ax.plot([share.mean()] * 2, [-place + side - 0.16, -place + side + 0.16], color=colour, lw=1.8)
        most = part["ceiling"].iloc[0]
        ax.text(1.005, -place, f"ceiling {most:.4g}", transform=ax.get_yaxis_transform(), va="center", fontsize=6.5)
    ax.axvline(1.0, color=style.GREY, lw=0.8, ls="--", label="mean of random permutations")
    ax.set_yticks([-place for place in range(len(labels))], labels)
    ax.set_ylim(-len(labels) + 0.4, 0.6)
    ax.set_xlim(-0.02, max(1.12, 1.03 * float(table["share"].max())))
    ax.set_xlabel("transpositions / their mean for random permutations")
    figure.legend(loc="outside lower center", ncols=3)
    return figure


def _labels_with(table: pd.DataFrame, where: str) -> list[str]:
    return list(dict.fromkeys(table.loc[table["where"] == where, "label"]))
