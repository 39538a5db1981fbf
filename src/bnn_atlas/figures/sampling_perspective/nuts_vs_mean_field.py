"""The posterior of a linear network with two weights, by NUTS and by mean-field variational inference."""

from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import MultipleLocator

from bnn_atlas.figures import page, style
from bnn_atlas.figures.density import Surface, draw_regions, smooth_pair
from bnn_atlas.figures.page import Drawing
from bnn_atlas.figures.shown import Shown
from bnn_atlas.figures.subsets import Subset, locate, read_subset

KIND = {
    "sections": ["subset"],
    "methods": ["nuts", "mean_field"],
    "needs": ["normal prior", "one split"],
    "apart": ["prior scale", "method"],
    "columns": "prior_sd method share line x y",
}  # fmt: skip

WEIGHTS = ("layer0.weight[0,0]", "layer1.weight[0,0]")
LIMIT = 3.0
SHARES = (0.95, 0.8, 0.5, 0.2)
"""Shares of the draws that the regions hold."""
ADJUST = 0.15
"""Bandwidth as a multiple of Scott's rule, which is made for one normal and would smear two thin branches."""
BINS = 600
DOTS = 2000
"""Largest number of draws shown as dots."""
SMALL = 0.6
"""Width of a mean-field region below which it is enlarged in a corner."""


def nuts_vs_mean_field(shown: Sequence[Shown]) -> Drawing:
    """Joint density of the two weights of y = w2 w1 x: NUTS filled, mean field as contours, a panel per prior scale.

    The exact posterior follows both branches of w1 w2 = slope (dashed: slope 1); mean field has to choose one place on
    one branch. If a mean-field run has several fits, the first is drawn. Every panel needs one run of each method.
    """
    panels = _panels(shown)
    width = style.TEXT_WIDTH if len(panels) > 1 else style.COLUMN_WIDTH
    figure = Figure(figsize=(width, 1.0 + (width - 0.7) / max(len(panels), 1)))
    axes = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    parts = []
    for ax, (sd, runs) in zip(axes, panels.items(), strict=True):
        parts.append(_panel(ax, runs["nuts"], runs["mean_field"]).assign(prior_sd=sd))
        ax.set_title(f"prior scale {sd:.3g}")
    axes[0].set_ylabel("$w_2$")
    page.legend_below(figure, _legend())
    data = pd.concat(parts, ignore_index=True)[["prior_sd", "method", "share", "line", "x", "y"]]
    return Drawing(figure, data)


def _panels(shown: Sequence[Shown]) -> dict[float, dict[str, Shown]]:
    """Prior standard deviation, largest first -> method -> its run."""
    panels: dict[float, dict[str, Shown]] = {}
    for run in shown:
        assert run.prior_sd is not None
        panels.setdefault(run.prior_sd, {})[run.method] = run
    return dict(sorted(panels.items(), reverse=True))


def _panel(ax: Axes, nuts: Shown, mean_field: Shown) -> pd.DataFrame:
    """Draw both posteriors at one prior scale; the outlines of their regions."""
    sampled = read_subset(nuts.files["subset"])
    fitted = read_subset(mean_field.files["subset"])
    exact = locate(sampled, WEIGHTS, nuts.files["subset"]).reshape(-1, 2)
    one_fit = locate(fitted, WEIGHTS, mean_field.files["subset"])[0]
    window = np.array([[-LIMIT, LIMIT]] * 2)
    surface = smooth_pair(exact, window, BINS, ADJUST)
    tables = [draw_regions(ax, surface, dict(zip(SHARES, _shades(), strict=True))).assign(method="nuts")]
    low, high = one_fit.min(axis=0), one_fit.max(axis=0)
    # Cells fit the blob, which can be far smaller than the panel.
    middle, reach = (low + high) / 2, max(float((high - low).max()), 1e-6)
    near = np.stack([middle - reach, middle + reach], axis=1)
    blob = smooth_pair(one_fit, near, 200)
    tables.append(_outline(ax, blob).assign(method="mean_field"))
    _axes(ax, window)
    ax.text(0.03, 0.97, _counts(sampled, fitted), transform=ax.transAxes, va="top", fontsize=5.5, color=style.GREY)
    if high.max() < -LIMIT or low.min() > LIMIT:
        ax.text(0.03, 0.03, "mean field lies outside", transform=ax.transAxes, fontsize=6.5, color=style.PURPLE)
    elif float((high - low).max()) < SMALL:
        _enlarged(ax, exact, blob, near)
    return pd.concat(tables, ignore_index=True)


def _enlarged(ax: Axes, exact: np.ndarray, blob: Surface, near: np.ndarray) -> None:
    """The surroundings of a small mean-field region, in the corner between the branches; NUTS as single draws."""
    inset = ax.inset_axes((0.6, 0.06, 0.36, 0.36))
    inside = ((exact >= near[:, 0]) & (exact <= near[:, 1])).all(axis=1)
    inset.plot(*exact[inside][:DOTS].T, ls="none", marker=".", ms=1.5, mew=0, color=style.GREY)
    _outline(inset, blob)
    _axes(inset, near)
    inset.set_xlabel("")
    inset.set_xticks([])
    inset.set_yticks([])
    inset.spines[:].set_visible(True)
    ax.add_patch(
        Rectangle((near[0, 0], near[1, 0]), *(near[:, 1] - near[:, 0]), fill=False, ec=style.BLACK, lw=0.6, zorder=6)
    )
    inset.set_title("square, as dots", fontsize=6, pad=2)


def _outline(ax: Axes, surface: Surface) -> pd.DataFrame:
    """Regions of mean field."""
    colours = dict.fromkeys(SHARES, style.METHODS["mean_field"].colour)
    return draw_regions(ax, surface, colours, filled=False, linewidths=0.8)


def _shades() -> list[str]:
    return [mpl.colors.to_hex(mpl.colormaps["Greys"](place)) for place in np.linspace(0.22, 0.85, len(SHARES))]


def _axes(ax: Axes, window: np.ndarray) -> None:
    """The dashed curve w1 w2 = 1 and equal axes."""
    for side in (np.geomspace(1 / 50, 50, 1000), -np.geomspace(1 / 50, 50, 1000)):
        ax.plot(side, 1 / side, color=style.GREEN, ls=(0, (3, 2)), lw=0.9)
    ax.set_xlim(*window[0])
    ax.set_ylim(*window[1])
    ax.set_aspect("equal")
    ax.set_xlabel("$w_1$")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MultipleLocator(1))


def _counts(sampled: Subset, fitted: Subset) -> str:
    """How many draws a panel shows of each method, and what it leaves out."""
    lines = []
    for name, subset, chains in (("NUTS", sampled, len(sampled.chains)), ("mean field", fitted, 1)):
        lines.append(f"{name}: {style.thousands(chains * subset.values.shape[1])} draws")
        lines += [subset.remark] if subset.remark else []
    if (fits := len(fitted.chains)) > 1:
        lines.append(f"of fit 1 of {fits}")
    points = locate(sampled, WEIGHTS, "").reshape(-1, 2)
    if outside := float((np.abs(points) > LIMIT).any(axis=1).mean()):
        lines.insert(1, f"({100 * outside:.2g}% outside)")
    return "\n".join(lines)


def _legend() -> dict[str, Artist]:
    shares = ", ".join(f"{share:.0%}" for share in SHARES)
    return {
        f"NUTS, regions with {shares} of the draws": Patch(color=_shades()[2], lw=0),
        "mean field, the same regions": Line2D([], [], color=style.METHODS["mean_field"].colour, lw=0.8),
        "$w_1 w_2 = 1$": Line2D([], [], color=style.GREEN, ls=(0, (3, 2)), lw=0.9),
    }
