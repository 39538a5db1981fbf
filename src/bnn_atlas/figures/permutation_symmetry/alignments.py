"""Draws and moments of weights in the frame of an alignment, compared with draws as sampled and with controls."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from scipy.stats import chi2

from bnn_atlas.figures import page, style
from bnn_atlas.figures.axes import mark_published, published_handle, rhat_axis
from bnn_atlas.figures.density import draw_bins, draw_marginals
from bnn_atlas.figures.page import Drawing
from bnn_atlas.figures.shown import Shown
from bnn_atlas.published import published_numbers
from bnn_atlas.symmetry.aligned_draws import load_aligned_draws, rhats
from bnn_atlas.symmetry.frame import VARIANTS, Frame, load_frame
from bnn_atlas.symmetry.permutation import ceiling
from bnn_atlas.traces.draws import evenly

KINDS = {
    "aligned_marginals": {
        "files": ["aligned_draws"], "alignments": [1, 4],
        "columns": "label weight variant low high density",
    },
    "aligned_rhat": {
        "files": ["aligned_draws"], "alignments": [1, 4],
        "columns": "label alignment variant kind at value",
    },
    "pair_plot": {
        "files": ["frames"], "same": ["network"], "alignments": [2, 4],
        "columns": "moment x_label y_label x_low x_high y_low y_high count correlation",
    },
    "sigma_histograms": {
        "files": ["frames"], "alignments": [1, 4],
        "columns": "label alignment what low high share mean least most near_one",
    },
    "transpositions_within_across": {
        "files": ["aligned_draws"], "alignments": [1, 8],
        "columns": "label alignment where transpositions ceiling share",
    },
}  # fmt: skip

LOOKS: dict[str, tuple[str, dict[str, Any]]] = {
    "sampled": ("as sampled", {"color": style.BLACK, "ls": "-", "lw": 1.0}),
    "aligned": ("aligned", {"color": style.BLUE, "ls": "-", "lw": 1.6}),
    "scrambled": ("scrambled (control)", {"color": style.VERMILION, "ls": (0, (1, 1)), "lw": 1.3}),
    "chain_wise": ("one permutation per chain", {"color": style.ORANGE, "ls": (0, (4, 1.5)), "lw": 1.3}),
}
"""Variant (`symmetry.frame.VARIANTS`) -> text in legends, and its line."""


class Aligned(NamedTuple):
    """An alignment of one run and split."""

    label: str
    """Text of the run, with the alignment's name if the run has several."""
    alignment: str
    file: Path
    run: Shown


def _alignments(shown: Sequence[Shown], name: str) -> list[Aligned]:
    """The files `name` of all alignments."""
    runs, found = [one.run for one in shown], []
    for one in shown:
        for alignment, file in one.parts[name].items():
            own = alignment.replace("_", " ").removeprefix(one.label.split()[-1]).strip()  # not twice
            texts = [one.label, own if len(one.parts[name]) > 1 else ""]
            texts.append(f"split {one.split}" if runs.count(one.run) > 1 else "")
            found.append(Aligned(", ".join(filter(None, texts)), alignment, file, one))
    return found


WEIGHTS = 4
"""Number of panels of marginals in a row."""
FEWEST_BINS, MOST_BINS = 8, 20
"""Limits on the number of bins of a marginal, which is the cube root of the number of draws."""
TAIL = 0.002
"""Share of the draws beyond each end of a marginal, over all variants."""


def aligned_marginals(shown: Sequence[Shown]) -> Drawing:
    """Histograms of some weights, one per array if there are enough arrays, a row per alignment and a line per variant.

    The numbers are the density of each bin from `low` to `high`, of the draws of all chains together.
    """
    table = pd.concat([_densities(one) for one in _alignments(shown, "aligned_draws")], ignore_index=True)
    labels, figure, axes = _rows(table, WEIGHTS, 1.45, 0.55)
    looks = {variant: look for variant, (_, look) in LOOKS.items()}
    for label, row in zip(labels, axes, strict=True):
        draw_marginals(row, table[table["label"] == label], "weight", "variant", looks)
        row[0].set_ylabel(f"{label}\ndensity" if len(labels) > 1 else "density", fontsize=7)
    _legend(figure)
    return Drawing(figure, table)


def _rows(
    table: pd.DataFrame, columns: int, row: float, more: float, **share: Any
) -> tuple[list[str], Figure, np.ndarray]:
    """The labels of a table, and a figure with a row of panels for each."""
    labels = list(dict.fromkeys(table["label"]))
    figure = Figure(figsize=(style.TEXT_WIDTH, row * len(labels) + more))
    return labels, figure, figure.subplots(len(labels), columns, squeeze=False, **share)


def _legend(figure: Figure, looks: Mapping[str, tuple[str, dict[str, Any]]] = LOOKS) -> None:
    page.legend_below(figure, {text: Line2D([], [], **look) for text, look in looks.values()})


def _densities(one: Aligned) -> pd.DataFrame:
    draws, parts = load_aligned_draws(one.file), []
    for column in _chosen(draws.names):
        values = {variant: draws.values[variant][draws.finite][:, column].astype(float) for variant in LOOKS}
        low, high = np.quantile(np.concatenate(list(values.values())), (TAIL, 1 - TAIL))
        bins = int(np.clip(np.cbrt(draws.finite.sum()), FEWEST_BINS, MOST_BINS))
        edges = np.linspace(low, high if high > low else low + 1, bins + 1)
        for variant, each in values.items():
            density = np.histogram(each, edges)[0] / (len(each) * np.diff(edges))
            common = {"label": one.label, "weight": str(draws.names[column]), "variant": variant}
            parts.append(pd.DataFrame({**common, "low": edges[:-1], "high": edges[1:], "density": density}))
    return pd.concat(parts)


def _chosen(names: np.ndarray) -> list[int]:
    """Places of one weight in the middle of each array, or of several weights, evenly spread."""
    arrays: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        arrays.setdefault(str(name).split("[")[0], []).append(place)
    middles = [places[len(places) // 2] for places in arrays.values()]
    if len(middles) >= WEIGHTS:
        return [middles[i] for i in evenly(len(middles), WEIGHTS)]
    others = [int(i) for i in evenly(len(names), WEIGHTS) if int(i) not in middles]
    return sorted([*middles, *others[: WEIGHTS - len(middles)]])


LOWEST, HIGHEST = 1e-3, 30.0
"""Limits of R-hat - 1; values outside are drawn at them."""


def aligned_rhat(shown: Sequence[Shown]) -> Drawing:
    """Shares of parameters up to an R-hat (left) and mean variances (right), a row per alignment, a line per variant.

    Numbers are rows of `kind` `quantile` (`value` is R-hat at the share `at`), `variance` and `variance within` a
    chain. Raises ValueError if no parameter has an R-hat (a single chain).
    """
    parts, shares = [], np.linspace(0, 1, 101)
    for one in _alignments(shown, "aligned_draws"):
        draws = load_aligned_draws(one.file)
        for variant, variances in zip(LOOKS, draws.variances, strict=True):
            values = rhats(draws, variant)
            if not len(values := values[~np.isnan(values)]):
                raise ValueError(f"{one.file}: no R-hat is defined; it needs two chains of four draws")
            common = {"label": one.label, "alignment": one.alignment, "variant": variant}
            quantiles = {"kind": "quantile", "at": shares, "value": np.quantile(values, shares)}
            of_all = {"kind": ["variance", "variance within"], "at": np.nan, "value": variances}
            parts += [pd.DataFrame({**common, **quantiles}), pd.DataFrame({**common, **of_all})]
    table = pd.concat(parts, ignore_index=True)
    labels, figure, axes = _rows(table, 2, 1.7, 0.6, width_ratios=(3, 2))
    for label, (left, right) in zip(labels, axes, strict=True):
        part = table[table["label"] == label]
        _shares(left, part)
        _variances(right, part)
        left.set_title(label)
        left.set_ylabel("share of weights")
        right.set_yticks([-place for place in range(len(LOOKS))], [text for text, _ in LOOKS.values()], fontsize=6)
    axes[-1][0].set_xlabel("R-hat")
    axes[-1][1].set_xlabel("mean variance")
    circle: dict[str, Any] = {"color": style.GREY, "marker": "o", "ms": 4.5, "ls": "none"}
    variances = {"variance within chains": {**circle, "mfc": "white"}, "variance over all draws": circle}
    page.legend_below(figure, dict(LOOKS.values()) | variances)
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
    ax.set_xlim(left=0)


WHERE = {"within": ("within chains", style.BLUE, "o"), "across": ("across chains", style.VERMILION, "s")}
"""Kind of pair -> its text, colour and mark."""


def transpositions_within_across(shown: Sequence[Shown]) -> Drawing:
    """Transpositions between draws matched to each other directly, as a share of the mean of random permutations.

    A row per pair: `where` it is, `transpositions` (summed over groups), their `ceiling` and the `share` of it.
    """
    parts = []
    for one in _alignments(shown, "aligned_draws"):
        draws = load_aligned_draws(one.file)
        most, found = sum(ceiling(int(size)) for size in draws.sizes), draws.transpositions.sum(axis=1)
        of_pair = np.where(draws.pair_chains[:, 0] == draws.pair_chains[:, 1], "within", "across")
        common = {"label": one.label, "alignment": one.alignment, "where": of_pair}
        parts.append(pd.DataFrame({**common, "transpositions": found, "ceiling": most, "share": found / most}))
    table = pd.concat(parts, ignore_index=True)
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
        ax.text(1.005, -place, f"random: {most:.4g}", transform=ax.get_yaxis_transform(), va="center", fontsize=6.5)
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
"""Width of a bin of sds, as published; a multiple of it if there would be more than `MOST_SDS` bins, or fewer weights
in a bin than `FEWEST_IN_BIN` on average."""
MOST_SDS, FEWEST_IN_BIN = 300, 50
SDS = {
    **LOOKS,
    "fitted": ("fitted", {"color": style.PURPLE, "ls": "-", "lw": 1.2}),
    "prior": ("as many independent draws from the prior", {"color": style.GREY, "ls": "--", "lw": 1.0}),
}
PUBLISHED_UNITS = 512
PUBLISHED_MEANS = {
    "hmc": "HMC, aligned",
    "hmc_chain": "HMC, aligned",
    "ensemble": "ensemble, aligned",
    "mean_field": "VI, fitted",
}
"""Alignment -> the published curve with whose mean it is compared."""
NEAR_ONE = (0.95, 1.05)
"""Sds of the weights that the paper calls near the prior's."""


def sigma_histograms(shown: Sequence[Shown]) -> Drawing:
    """Share of all parameters in bins of their sd, a panel per alignment, on a logarithmic axis without empty bins.

    The sds are of draws as sampled (q_d of Xiao et al. 2023), aligned (q_r) and of the two controls, or the fitted sds
    of an approximation; in addition, what as many independent draws from the prior would give, s = sd sqrt(chi^2_{n-1}
    / (n - 1)). Open marks are the paper's means, aligned or fitted, if the runs have its 512 units. Numbers are rows
    `what` (a variant, `fitted` or `prior`), `low`, `high`, `share` of a bin; the outermost bins also count what is
    beyond them. Each row repeats the `mean` of all sds, the `least`, the `most` and the share `near_one` (not of the
    prior).
    """
    found = _alignments(shown, "frames")
    table = pd.concat([_of_sds(one) for one in found], ignore_index=True)
    labels = list(dict.fromkeys(table["label"]))
    means = {
        one.label: float(one.value)
        for one in published_numbers("permutation_symmetry", "sds")
        if one.metric == "sd_mean"
    }
    theirs = {one.label: PUBLISHED_MEANS.get(one.alignment) for one in found if sum(one.run.hidden) == PUBLISHED_UNITS}
    figure, axes = page.panels(len(labels), 3, 2.0, wide_from=1, more=0.75)
    for label, ax in zip(labels, axes.flat, strict=False):
        part = table[table["label"] == label]
        for name, (_, look) in SDS.items():
            if len(own := part[part["what"] == name]):
                draw_bins(ax, own.assign(share=own["share"].where(own["share"] > 0)), "share", baseline=None, **look)
        ax.set_yscale("log")
        positive = part[(part["share"] > 0) & (part["what"] != "prior")]
        ax.set_ylim(float(positive["share"].min()) / 2, 4 * float(part["share"].max()))
        ax.set_xlim(float(positive["low"].min()), float(positive["high"].max()))
        if (mean := means.get(theirs.get(label) or "")) is not None:
            mark_published(ax, mean, 2 * float(part["share"].max()))
        ax.set_title(label)
        ax.set_xlabel("standard deviation of a weight")
    for ax in axes[:, 0]:
        ax.set_ylabel("share of weights")
    entries: dict[str, Any] = {text: look for name, (text, look) in SDS.items() if name in set(table["what"])}
    page.legend_below(figure, entries | ({"published mean": published_handle()} if any(theirs.values()) else {}))
    return Drawing(figure, table)


def _of_sds(one: Aligned) -> pd.DataFrame:
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
    common = {"label": one.label, "alignment": one.alignment, "low": edges[:-1], "high": edges[1:]}
    parts = [
        pd.DataFrame({**common, "what": name, "share": values, **_of_all(found.get(name))})
        for name, values in shares.items()
    ]
    return pd.concat(parts)[str(KINDS["sigma_histograms"]["columns"]).split()]


def _of_all(sds: np.ndarray | None) -> dict[str, float]:
    if sds is None:
        return {}
    low, high = NEAR_ONE
    near = float(((sds >= low) & (sds <= high)).mean())
    return {"mean": float(sds.mean()), "least": float(sds.min()), "most": float(sds.max()), "near_one": near}


BINS = 60
OUTSIDE = 0.0005
"""Share of the weights beyond each end of an axis of moments; they are counted in the outermost bins."""


def pair_plot(shown: Sequence[Shown]) -> Drawing:
    """Counts of weights by their means (above the diagonal) and standard deviations (below), for each pair of methods.

    All alignments have to be in the frame of the first. Numbers are rows of a `moment`: count of weights in each bin
    that has some, by `x_label` and `y_label`, and `correlation`.
    """
    found = _alignments(shown, "frames")
    moments = {one.label: _moments(load_frame(one.file)) for one in found}
    labels = list(moments)
    figure = Figure(figsize=(style.TEXT_WIDTH, style.TEXT_WIDTH * 0.86))
    axes = figure.subplots(len(labels), len(labels), squeeze=False)
    tables, norm = [], LogNorm(1, 2)
    for (i, j), ax in np.ndenumerate(axes):
        if i == j:
            ax.set_axis_off()
            ax.text(0.5, 0.5, labels[i], ha="center", va="center", fontsize=8, transform=ax.transAxes, wrap=True)
            continue
        name = "mean" if i < j else "sd"
        part = _panel(ax, moments[labels[j]][name], moments[labels[i]][name], norm)
        tables.append(part.assign(moment=name, x_label=labels[j], y_label=labels[i]))
        ax.set_xlabel(f"{name}, {labels[j]}", fontsize=6.5)
        ax.set_ylabel(f"{name}, {labels[i]}", fontsize=6.5)
    figure.colorbar(ScalarMappable(norm), ax=axes, label="weights in a bin", shrink=0.6, aspect=30)
    columns = ["moment", "x_label", "y_label", "x_low", "x_high", "y_low", "y_high", "count", "correlation"]
    return Drawing(figure, pd.concat(tables, ignore_index=True)[columns])


def _moments(frame: Frame) -> dict[str, np.ndarray]:
    """Mean and sd [P] of each weight: of the first fit of an approximation, else of the aligned draws."""
    if frame.fit_mean is not None and frame.fit_sd is not None:
        return {"mean": frame.fit_mean[0].astype(float), "sd": frame.fit_sd[0].astype(float)}
    return {"mean": frame.mean, "sd": frame.moment("aligned", "sd").astype(float)}


def _panel(ax: Axes, x: np.ndarray, y: np.ndarray, norm: LogNorm) -> pd.DataFrame:
    """Counts of weights by two moments; the diagonal is where the two agree. Occupied bins, and the correlation."""
    x_edges, y_edges = _edges(x), _edges(y)
    clipped = np.clip(x, x_edges[0], x_edges[-1]), np.clip(y, y_edges[0], y_edges[-1])
    counts = np.histogram2d(*clipped, bins=(x_edges, y_edges))[0].astype(int)
    norm.vmax = max(norm.vmax or 0, counts.max())
    ax.pcolormesh(x_edges, y_edges, np.ma.masked_equal(counts.T, 0), norm=norm, rasterized=True)
    low, high = max(x_edges[0], y_edges[0]), min(x_edges[-1], y_edges[-1])
    if low < high:
        ax.plot([low, high], [low, high], color=style.GREEN, lw=1.0, ls="--")
    correlation = np.corrcoef(x, y)[0, 1] if x.std() > 0 and y.std() > 0 else np.nan
    if np.isfinite(correlation):
        ax.set_title(f"r = {correlation:.2f}".replace("-", "\N{MINUS SIGN}"), fontsize=6.5)
    ax.xaxis.set_major_locator(MaxNLocator(3))
    ax.yaxis.set_major_locator(MaxNLocator(3))
    ax.tick_params(labelsize=6)
    a, b = np.nonzero(counts)
    edges = {"x_low": x_edges[a], "x_high": x_edges[a + 1], "y_low": y_edges[b], "y_high": y_edges[b + 1]}
    return pd.DataFrame({**edges, "count": counts[a, b], "correlation": correlation})


def _edges(values: np.ndarray) -> np.ndarray:
    low, high = np.quantile(values, (OUTSIDE, 1 - OUTSIDE))
    if high <= low:
        low, high = low - 0.5, low + 0.5
    return np.linspace(low, high, BINS + 1)
