"""Draws and moments of weights in the frame of an alignment, beside those as sampled and in the controls."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from scipy.stats import chi2

from bnn_atlas.figures import page, style
from bnn_atlas.figures.axes import rhat_axis
from bnn_atlas.figures.page import Drawing, check_fits
from bnn_atlas.figures.shown import Shown
from bnn_atlas.symmetry.aligned_draws import load_aligned_draws, rhats
from bnn_atlas.symmetry.frame import VARIANTS, Frame, load_frame
from bnn_atlas.symmetry.permutation import ceiling
from bnn_atlas.traces.draws import evenly

KINDS = {
    "aligned_marginals": {"files": ["aligned_draws"]},
    "aligned_rhat": {"files": ["aligned_draws"]},
    "pair_plot": {"files": ["frames"]},
    "sigma_histograms": {"files": ["frames"]},
    "transpositions_within_across": {"files": ["aligned_draws"]},
}

LOOKS: dict[str, tuple[str, dict[str, Any]]] = {
    "sampled": ("as sampled", {"color": style.BLACK, "ls": "-", "lw": 1.0}),
    "aligned": ("aligned", {"color": style.BLUE, "ls": "-", "lw": 1.6}),
    "scrambled": ("scrambled (control)", {"color": style.VERMILION, "ls": (0, (1, 1)), "lw": 1.3}),
    "chain_wise": ("one permutation per chain", {"color": style.ORANGE, "ls": (0, (4, 1.5)), "lw": 1.3}),
}
"""Variant (`symmetry.frame.VARIANTS`) -> text in legends, and its line."""
MOST = 4
"""Alignments in one figure."""


class Aligned(NamedTuple):
    """An alignment of one run and split."""

    label: str
    """Text of the run, with the alignment's name where the run has several."""
    alignment: str
    file: Path
    run: Shown


def _alignments(shown: Sequence[Shown], name: str, most: int = MOST) -> list[Aligned]:
    """The files `name` of all alignments; ValueError for none, or more than fit."""
    found = list(_all(shown, name))
    check_fits(len(found), most, "alignments", "choose some by `alignments` of the figure")
    return found


def _all(shown: Sequence[Shown], name: str) -> Iterator[Aligned]:
    splits = {one.run: sum(other.run == one.run for other in shown) for one in shown}
    for one in shown:
        parts = one.parts[name]
        for alignment, file in parts.items():
            named = f"{one.label}, {alignment.replace('_', ' ')}" if len(parts) > 1 else one.label
            yield Aligned(f"{named}, split {one.split}" if splits[one.run] > 1 else named, alignment, file, one)


WEIGHTS = 4
"""Panels of marginals in a row."""
FEWEST_BINS, MOST_BINS = 8, 40
"""Bins of a marginal; between these, twice the cube root of the number of draws."""
TAIL = 0.002
"""Share of the draws beyond each end of a marginal, over all variants."""


def aligned_marginals(shown: Sequence[Shown]) -> Drawing:
    """Histograms of some weights, one per array where there are enough, a row per alignment and a line per variant.

    The numbers are the density of each bin from `low` to `high`, of the draws of all chains together.
    """
    table = pd.DataFrame([row for one in _alignments(shown, "aligned_draws") for row in _densities(one)])
    labels = list(dict.fromkeys(table["label"]))
    figure = Figure(figsize=(style.TEXT_WIDTH, 1.45 * len(labels) + 0.55))
    axes = figure.subplots(len(labels), WEIGHTS, squeeze=False)
    for label, row in zip(labels, axes, strict=True):
        part = table[table["label"] == label]
        names = list(dict.fromkeys(part["weight"]))
        for ax in row[len(names) :]:
            ax.set_axis_off()
        for name, ax in zip(names, row, strict=False):
            for variant, (_, look) in LOOKS.items():
                _stairs(ax, part[(part["weight"] == name) & (part["variant"] == variant)], "density", look)
            ax.set_ylim(bottom=0)
            ax.xaxis.set_major_locator(MaxNLocator(4))
            ax.yaxis.set_major_locator(MaxNLocator(3))
            ax.set_title(name, fontsize=6.5)
        row[0].set_ylabel(f"{label}\ndensity" if len(labels) > 1 else "density", fontsize=7)
    page.legend_below(figure, {text: Line2D([], [], **look) for text, look in LOOKS.values()})
    return Drawing(figure, table)


def _densities(one: Aligned) -> list[dict[str, object]]:
    draws, rows = load_aligned_draws(one.file), []
    for column in _chosen(draws.names):
        values = {variant: draws.values[variant][draws.finite][:, column].astype(float) for variant in LOOKS}
        together = np.concatenate(list(values.values()))
        low, high = np.quantile(together, (TAIL, 1 - TAIL))
        bins = int(np.clip(2 * np.cbrt(draws.finite.sum()), FEWEST_BINS, MOST_BINS))
        edges = np.linspace(low, high if high > low else low + 1, bins + 1)
        for variant, each in values.items():
            density = np.histogram(each, edges)[0] / (len(each) * np.diff(edges))
            common = {"label": one.label, "weight": str(draws.names[column]), "variant": variant}
            cells = zip(edges[:-1], edges[1:], density, strict=True)
            rows += [{**common, "low": a, "high": b, "density": value} for a, b, value in cells]
    return rows


def _chosen(names: np.ndarray) -> list[int]:
    """Places of one weight from the middle of each array, or of several, evenly spread."""
    arrays: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        arrays.setdefault(str(name).split("[")[0], []).append(place)
    middles = [places[len(places) // 2] for places in arrays.values()]
    if len(middles) >= WEIGHTS:
        return [middles[i] for i in evenly(len(middles), WEIGHTS)]
    others = [int(i) for i in evenly(len(names), WEIGHTS) if int(i) not in middles]
    return sorted([*middles, *others[: WEIGHTS - len(middles)]])


def _stairs(ax: Axes, part: pd.DataFrame, value: str, look: dict[str, Any], **more: Any) -> None:
    """A histogram whose bins have the edges `low` and `high`."""
    edges = np.append(part["low"].to_numpy(), part["high"].to_numpy()[-1])
    ax.stairs(part[value].to_numpy(), edges, **look, **more)


LOWEST, HIGHEST = 1e-3, 30.0
"""Limits of R-hat - 1; what is outside is drawn at them."""


def aligned_rhat(shown: Sequence[Shown]) -> Drawing:
    """Shares of parameters up to an R-hat (left) and mean variances (right), a row per alignment, a line per variant.

    Numbers are rows of `kind` `quantile` (`value` is R-hat at the share `at`), `variance` and `variance within` a
    chain. Raises ValueError where no parameter has an R-hat (a single chain).
    """
    rows: list[dict[str, object]] = []
    shares = np.linspace(0, 1, 101)
    for one in _alignments(shown, "aligned_draws"):
        draws = load_aligned_draws(one.file)
        for variant, variances in zip(LOOKS, draws.variances.tolist(), strict=True):
            common = {"label": one.label, "alignment": one.alignment, "variant": variant}
            values = rhats(draws, variant)
            values = values[~np.isnan(values)]
            if not len(values):
                raise ValueError(f"{one.file}: no R-hat is defined; it needs two chains of four draws")
            for share, value in zip(shares, np.quantile(values, shares), strict=True):
                rows.append({**common, "kind": "quantile", "at": share, "value": value})
            for kind, value in zip(("variance", "variance within"), variances, strict=True):
                rows.append({**common, "kind": kind, "value": value})
    table = pd.DataFrame(rows)
    labels = list(dict.fromkeys(table["label"]))
    figure = Figure(figsize=(style.TEXT_WIDTH, 1.7 * len(labels) + 0.6))
    axes = figure.subplots(len(labels), 2, squeeze=False, width_ratios=(3, 2))
    for label, (left, right) in zip(labels, axes, strict=True):
        part = table[table["label"] == label]
        _shares(left, part)
        _variances(right, part)
        left.set_title(label)
        left.set_ylabel("share of weights")
    axes[-1][0].set_xlabel("R-hat")
    axes[-1][1].set_xlabel("mean variance")
    page.legend_below(figure, {text: Line2D([], [], **look) for text, look in LOOKS.values()})
    return Drawing(figure, table)


def _shares(ax: Axes, table: pd.DataFrame) -> None:
    for variant, (_, look) in LOOKS.items():
        part = table[(table["variant"] == variant) & (table["kind"] == "quantile")]
        place = np.log10(np.clip(part["value"].to_numpy() - 1, LOWEST, HIGHEST))
        ax.plot(place, part["at"], **look)
    rhat_axis(ax, LOWEST, HIGHEST)
    ax.set_ylim(0, 1.02)


def _variances(ax: Axes, table: pd.DataFrame) -> None:
    """A bar from the variance within a chain (open) to that over all draws (filled) for each variant."""
    for place, (variant, (_, look)) in enumerate(LOOKS.items()):
        part = table[table["variant"] == variant].set_index("kind")["value"]
        pooled, within = float(part["variance"]), float(part["variance within"])
        ax.plot([within, pooled], [-place, -place], color=look["color"], lw=1.2)
        ax.plot(within, -place, "o", ms=4.5, mfc="white", mec=look["color"])
        ax.plot(pooled, -place, "o", ms=4.5, color=look["color"])
    ax.set_ylim(-len(LOOKS) + 0.5, 0.5)
    ax.set_yticks([])
    ax.set_xlim(left=0)
    ax.set_title("within chains (open), over all draws (filled)", fontsize=7)


MOST_ROWS = 8
"""Alignments in a figure of transpositions."""
WHERE = {"within": ("within chains", style.BLUE, "o"), "across": ("across chains", style.VERMILION, "s")}
"""Kind of a pair -> its text, colour and mark."""


def transpositions_within_across(shown: Sequence[Shown]) -> Drawing:
    """Transpositions between draws matched to each other directly, as a share of the mean of random permutations.

    A row per pair: `where` it is, `transpositions` (summed over groups), their `ceiling` and the `share` of it.
    """
    rows: list[dict[str, object]] = []
    for one in _alignments(shown, "aligned_draws", MOST_ROWS):
        draws = load_aligned_draws(one.file)
        most = sum(ceiling(int(size)) for size in draws.sizes)
        within = draws.pair_chains[:, 0] == draws.pair_chains[:, 1]
        for inside, found in zip(within, draws.transpositions.sum(axis=1), strict=True):
            common = {"label": one.label, "alignment": one.alignment, "where": "within" if inside else "across"}
            rows.append({**common, "transpositions": int(found), "ceiling": most, "share": found / most})
    table = pd.DataFrame(rows)
    labels = list(dict.fromkeys(table["label"]))
    figure = Figure(figsize=(style.TEXT_WIDTH, 0.62 * len(labels) + 0.75))
    ax = figure.subplots()
    generator = np.random.default_rng(0)
    for place, label in enumerate(labels):
        part = table[table["label"] == label]
        for side, (where, (_, colour, mark)) in zip((0.2, -0.2), WHERE.items(), strict=True):
            if len(share := part.loc[part["where"] == where, "share"].to_numpy(dtype=float)):
                height = -place + side + generator.uniform(-0.1, 0.1, len(share))
                ax.plot(share, height, mark, ms=2.5, color=colour, alpha=0.4, mew=0)
                ax.plot([share.mean()] * 2, [-place + side - 0.16, -place + side + 0.16], color=colour, lw=1.8)
        most = part["ceiling"].iloc[0]
        ax.text(1.005, -place, f"ceiling {most:.4g}", transform=ax.get_yaxis_transform(), va="center", fontsize=6.5)
    ax.axvline(1.0, color=style.GREY, lw=0.8, ls="--")
    ax.set_yticks([-place for place in range(len(labels))], labels)
    ax.set_ylim(-len(labels) + 0.4, 0.6)
    ax.set_xlim(-0.02, max(1.12, 1.03 * float(table["share"].max())))
    ax.set_xlabel("transpositions / their mean for random permutations")
    entries = {
        text: Line2D([], [], marker=mark, ms=2.5, color=colour, alpha=0.4, mew=0, ls="none")
        for where, (text, colour, mark) in WHERE.items()
        if (table["where"] == where).any()
    }
    random = Line2D([], [], color=style.GREY, lw=0.8, ls="--")
    page.legend_below(figure, {**entries, "mean of random permutations": random})
    return Drawing(figure, table)


WIDTH = 0.01
"""Width of a bin of sds, as published; a multiple of it where there would be more than `MOST_SDS`, or fewer weights in
a bin than `FEWEST_IN_BIN` on average."""
MOST_SDS, FEWEST_IN_BIN = 300, 50
SDS = {
    **LOOKS,
    "fitted": ("fitted", {"color": style.PURPLE, "ls": "-", "lw": 1.2}),
    "prior": ("draws from the prior, as many and independent", {"color": style.GREY, "ls": "--", "lw": 1.0}),
}


def sigma_histograms(shown: Sequence[Shown]) -> Drawing:
    """Share of all parameters in bins of their sd, a panel per alignment, on a logarithmic axis without empty bins.

    As sampled (q_d of Xiao et al. 2023), aligned (q_r) and of the two controls; of an approximation its fitted sds; and
    what as many independent draws of the prior would give, s = sd sqrt(chi^2_{n-1} / (n - 1)). Numbers are rows `what`
    (a variant, `fitted` or `prior`), `low`, `high`, `share` of a bin; the outermost bins have what is beyond, too.
    """
    table = pd.DataFrame([row for one in _alignments(shown, "frames") for row in _of_sds(one)])
    labels = list(dict.fromkeys(table["label"]))
    figure, axes = page.panels(len(labels), 2, 1.8, more=0.6)
    for label, ax in zip(labels, axes.flat, strict=False):
        part = table[table["label"] == label]
        for name, (_, look) in SDS.items():
            if len(own := part[part["what"] == name]):
                _stairs(ax, own.assign(share=own["share"].where(own["share"] > 0)), "share", look, baseline=None)
        ax.set_yscale("log")
        positive = part.loc[(part["share"] > 0) & (part["what"] != "prior"), "share"]
        ax.set_ylim(float(positive.min()) / 2, 2 * float(part["share"].max()))
        ax.set_xlim(0, float(part["high"].max()))
        ax.set_title(label)
        ax.set_xlabel("standard deviation of a weight")
    for ax in axes[:, 0]:
        ax.set_ylabel("share of weights")
    drawn = set(table["what"])
    page.legend_below(figure, {text: Line2D([], [], **look) for n, (text, look) in SDS.items() if n in drawn})
    return Drawing(figure, table)


def _of_sds(one: Aligned) -> list[dict[str, object]]:
    frame = load_frame(one.file)
    found = {name: frame.moment(name, "sd").astype(float) for name in VARIANTS}
    if frame.fit_sd is not None:
        found["fitted"] = frame.fit_sd[0].astype(float)
    largest = max(float(np.quantile(values, 0.9999)) for values in found.values())
    most = min(MOST_SDS, max(10, len(frame.mean) // FEWEST_IN_BIN))
    width = WIDTH * max(1, int(np.ceil(largest / most / WIDTH)))
    edges = np.arange(0, int(np.ceil(largest / width)) + 1) * width
    shares = {
        name: np.histogram(np.clip(values, edges[0], edges[-1]), edges)[0] / len(values)
        for name, values in found.items()
    }
    count, sd = int(frame.finite.sum()), one.run.prior_sd
    if sd is not None:
        shares["prior"] = np.diff(chi2.cdf((edges / sd) ** 2 * (count - 1), count - 1))
    return [
        {"label": one.label, "alignment": one.alignment, "what": name, "low": low, "high": high, "share": share}
        for name, values in shares.items()
        for low, high, share in zip(edges[:-1], edges[1:], values, strict=True)
    ]


BINS = 60
OUTSIDE = 0.0005
"""Share of the weights beyond each end of an axis of moments; they are counted in the outermost bins."""


def pair_plot(shown: Sequence[Shown]) -> Drawing:
    """Counts of weights by their means (above the diagonal) and standard deviations (below), for each pair of methods.

    All alignments have to be in one frame: that of the first. Numbers are rows of a `moment`: count of weights in each
    bin that has some, by `x_label` and `y_label`, and `correlation`. Raises ValueError for a single alignment, and for
    networks that differ.
    """
    found = _alignments(shown, "frames")
    if len(found) < 2:
        raise ValueError("one alignment in this figure; it compares two to 4: choose more by `runs` and `alignments`")
    moments = {one.label: _moments(load_frame(one.file)) for one in found}
    if len({len(each["mean"]) for each in moments.values()}) > 1:
        raise ValueError("the alignments of this figure are of networks of different sizes; show those of one network")
    labels, tables = list(moments), []
    figure = Figure(figsize=(style.TEXT_WIDTH, style.TEXT_WIDTH * 0.86))
    axes = figure.subplots(len(labels), len(labels), squeeze=False)
    for i, y_label in enumerate(labels):
        for j, x_label in enumerate(labels):
            if i == j:
                continue
            name = "mean" if i < j else "sd"
            counts = _counts(moments[x_label][name], moments[y_label][name])
            tables.append(counts.assign(moment=name, x_label=x_label, y_label=y_label))
    table = pd.concat(tables, ignore_index=True)
    largest, mesh = int(table["count"].max()), None
    for (i, j), ax in np.ndenumerate(axes):
        if i == j:
            ax.set_axis_off()
            ax.text(0.5, 0.5, labels[i], ha="center", va="center", fontsize=8, transform=ax.transAxes, wrap=True)
            continue
        mesh = _panel(ax, table[(table["x_label"] == labels[j]) & (table["y_label"] == labels[i])], largest)
        what = "mean" if i < j else "sd"
        ax.set_xlabel(f"{what}, {labels[j]}", fontsize=6.5)
        ax.set_ylabel(f"{what}, {labels[i]}", fontsize=6.5)
    assert mesh is not None
    figure.colorbar(mesh, ax=axes, label="weights in a bin", shrink=0.6, aspect=30)
    edges = ["x_low", "x_high", "y_low", "y_high"]
    return Drawing(figure, table[["moment", "x_label", "y_label", *edges, "count", "correlation"]])


def _moments(frame: Frame) -> dict[str, np.ndarray]:
    """Mean and sd [P] of each weight: of the first fit of an approximation, else of the aligned draws."""
    if frame.fit_mean is not None and frame.fit_sd is not None:
        return {"mean": frame.fit_mean[0].astype(float), "sd": frame.fit_sd[0].astype(float)}
    return {"mean": frame.mean, "sd": frame.moment("aligned", "sd").astype(float)}


def _counts(x: np.ndarray, y: np.ndarray) -> pd.DataFrame:
    """Occupied bins of two moments: edges, count and, on each row, the correlation."""
    x_edges, y_edges = _edges(x), _edges(y)
    clipped = np.clip(x, x_edges[0], x_edges[-1]), np.clip(y, y_edges[0], y_edges[-1])
    counts = np.histogram2d(*clipped, bins=(x_edges, y_edges))[0]
    a, b = np.nonzero(counts)
    return pd.DataFrame(
        {
            "x_low": x_edges[a], "x_high": x_edges[a + 1], "y_low": y_edges[b], "y_high": y_edges[b + 1],
            "count": counts[a, b].astype(int),
            "correlation": float(np.corrcoef(x, y)[0, 1]) if x.std() > 0 and y.std() > 0 else np.nan,
        }
    )  # fmt: skip


def _edges(values: np.ndarray) -> np.ndarray:
    low, high = np.quantile(values, (OUTSIDE, 1 - OUTSIDE))
    if high <= low:
        low, high = float(low) - 0.5, float(low) + 0.5
    return np.linspace(low, high, BINS + 1)


def _panel(ax: Axes, table: pd.DataFrame, largest: int) -> QuadMesh:
    """Counts of one pair; the diagonal is where the two agree."""
    x_edges = np.unique(np.append(table["x_low"], table["x_high"]))
    y_edges = np.unique(np.append(table["y_low"], table["y_high"]))
    counts = np.full((len(y_edges) - 1, len(x_edges) - 1), np.nan)
    across = np.searchsorted(x_edges, table["x_low"].to_numpy())
    up = np.searchsorted(y_edges, table["y_low"].to_numpy())
    counts[up, across] = table["count"].to_numpy()
    mesh = ax.pcolormesh(x_edges, y_edges, counts, norm=LogNorm(1, max(2, largest)), rasterized=True)
    low, high = max(x_edges[0], y_edges[0]), min(x_edges[-1], y_edges[-1])
    if low < high:
        ax.plot([low, high], [low, high], color=style.GREY, lw=0.7, ls="--")
    correlation = table["correlation"].iloc[0]
    if np.isfinite(correlation):
        ax.set_title(f"r = {correlation:.2f}".replace("-", "\N{MINUS SIGN}"), fontsize=6.5)
    ax.xaxis.set_major_locator(MaxNLocator(3))
    ax.yaxis.set_major_locator(MaxNLocator(3))
    ax.tick_params(labelsize=6)
    return mesh
