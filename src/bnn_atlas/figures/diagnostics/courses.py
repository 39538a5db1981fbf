"""Panels on what the sampler reported (log posterior, energy error, acceptance, step size), and how to draw courses."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from bnn_atlas.figures import axes, style
from bnn_atlas.figures.diagnostics.run import Run, by_chain, plotted

WRONG = style.VERMILION
SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Quantiles over chains, and over parameters, that are drawn."""
SMOOTH = 25
"""Points of an acceptance curve."""
MOST_POINTS = 200
"""Largest number of chains that get a point each; more are shown by a histogram."""


class Panel(NamedTuple):
    """One panel of the page."""

    title: str
    missing: Callable[[Run], str]
    """Says why a run does not have it; empty if it does."""
    draw: Callable[[Axes, Run], pd.DataFrame]
    """Draws it and returns the plotted numbers (run.plotted)."""


def course(
    ax: Axes, run: Run, panel: str, curve: pd.DataFrame, *, series: str = "chain", spans: bool = False,
    colour: str = style.BLUE, own: Mapping[int, dict[str, Any]] = MappingProxyType({}), **look: Any,
) -> pd.DataFrame:  # fmt: skip
    """A line per chain, with gaps where it is not finite, or bands of many chains; the plotted numbers.

    `spans` adds to the numbers the range `low` to `high` of the draws that a point stands for. `look` is the look of
    lines, `own` the look of single chains, and `colour` the colour of bands.
    """
    if not run.lines:
        return bands(ax, panel, curve, colour)
    colours = style.chain_colours(run.count)
    for chain, part in by_chain(curve):
        line = {"color": colours[chain], "lw": 0.9, "alpha": 0.85, **look, **own.get(chain, {})}
        ax.plot(part["x"], finite(part["value"]), **line)
    span = {side: curve[side] for side in ("low", "high")} if spans else {}
    return plotted(panel, series, curve["x"], curve["value"], chain=curve["chain"], **span)


def bands(ax: Axes, panel: str, curve: pd.DataFrame, colour: str = style.BLUE) -> pd.DataFrame:
    """Quantiles over chains: 5 to 95 and 25 to 75 percent as bands, the median as a line; the plotted numbers."""
    levels = {q: curve[curve["quantile"] == q].sort_values("x") for q in SHARES}
    for low, high, alpha in ((0.05, 0.95, 0.18), (0.25, 0.75, 0.3)):
        ax.fill_between(levels[low]["x"], levels[low]["value"], levels[high]["value"], color=colour, alpha=alpha, lw=0)
    ax.plot(levels[0.5]["x"], levels[0.5]["value"], color=colour, lw=1.1)
    shown = curve[curve["quantile"].isin(SHARES)]
    return plotted(panel, "quantile " + shown["quantile"].map("{:g}".format), shown["x"], shown["value"])


def finite(values: pd.Series) -> pd.Series:
    """Values with gaps where they are infinite."""
    return values.where(np.isfinite(values))


def remark(ax: Axes, *texts: str) -> None:
    """Short remarks inside a panel, at its lower right."""
    if text := "\n".join(filter(None, texts)):
        box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.0}
        ax.text(0.985, 0.03, text, transform=ax.transAxes, ha="right", va="bottom", fontsize=6.5, color=WRONG, bbox=box)


def _log_posterior(ax: Axes, run: Run) -> pd.DataFrame:
    """Log-likelihood plus log-prior, untempered: a line per chain, or bands; crosses where steps diverged.

    Excluded chains are dashed; the shaded area is the range of the draws that a point stands for.
    """
    curve, marks = run.curve("log_posterior"), run.curve("divergent")
    ax.set_ylabel("log-likelihood + log-prior")
    if run.draws == 1:
        return _last_values(ax, run)
    excluded = {chain: {"color": WRONG, "ls": (0, (3, 2))} for chain in {*range(run.count)} - {*run.kept.tolist()}}
    rows = course(ax, run, "log posterior", curve, spans=True, own=excluded, lw=0.8)
    for line, (_, part) in zip(ax.lines, by_chain(curve), strict=False):
        if (part["high"] > part["low"]).any():
            ax.fill_between(part["x"], part["low"], part["high"], color=line.get_color(), alpha=0.15, lw=0)
    if limits := axes.bulk_limits(_of_kept(run, curve)):
        ax.set_ylim(*limits)
    rows = pd.concat([rows, _mark(ax, run, curve, marks)])
    remark(ax, _marks_note(run), _excluded_note(run))
    _draw_axis(ax, run)
    return rows


def _last_values(ax: Axes, run: Run) -> pd.DataFrame:
    """One draw per chain: a point per chain, or a histogram."""
    values = run.column("log_posterior_mean")
    chains, good = np.arange(run.count), np.isfinite(values)
    if run.count > MOST_POINTS:
        ax.set_ylabel("chains")
        ax.set_xlabel("log-likelihood + log-prior")
        return _histogram(ax, "log posterior", values[good])
    kept = np.isin(chains, run.kept)
    ax.plot(chains[kept & good], values[kept & good], "o", ms=3, color=style.BLUE)
    ax.plot(chains[~kept & good], values[~kept & good], "X", ms=4, color=WRONG)
    axes.whole_numbers(ax)
    ax.set_xlabel("chain")
    remark(ax, _excluded_note(run))
    return plotted("log posterior", "draw", chains, values, chain=chains)


def _mark(ax: Axes, run: Run, curve: pd.DataFrame, marks: pd.DataFrame) -> pd.DataFrame:
    """Where steps diverged: crosses on the lines, or a row of ticks at the foot of the panel."""
    if not len(marks):
        return plotted("log posterior", "divergent steps", marks["x"], marks["value"])
    if run.lines:
        marked = marks.merge(curve[["chain", "x", "value"]], on=["chain", "x"], how="left", suffixes=("", "_there"))
        heights = marked["value_there"].clip(*ax.get_ylim())
        ax.plot(marked["x"], heights, "x", ms=3.5, mew=0.9, color=WRONG, alpha=0.8, clip_on=False)
    else:
        ax.plot(marks["x"], np.full(len(marks), 0.015), "|", ms=5, color=WRONG, transform=ax.get_xaxis_transform())
    return plotted("log posterior", "divergent steps", marks["x"], marks["value"], chain=marks["chain"])


def _energy(ax: Axes, run: Run) -> pd.DataFrame:
    """Energy error of the step before each draw, linear within 1 and logarithmic beyond."""
    curve = run.curve("energy_change")
    if (curve["high"] > curve["low"]).any():
        span = curve.groupby("x").agg(low=("low", "min"), high=("high", "max"))
        ax.fill_between(span.index, span["low"], span["high"], color=style.GREY, alpha=0.18, lw=0)
    rows = course(ax, run, "energy error", curve, spans=True, ls="", marker=".", ms=3.5, mew=0, alpha=0.7)
    ax.axhline(0, color=style.GREY, lw=0.5)
    shown = _of_kept(run, curve)
    largest = max(2.0, float(np.abs(shown[np.isfinite(shown)]).max(initial=0.0)))
    ax.set_yscale("symlog", linthresh=1.0, linscale=0.7)
    powers = np.arange(0, np.ceil(np.log10(largest)) + 1)[:: 1 if largest < 1e3 else 2]
    ticks = [0.0, *(10.0**powers), *(-(10.0**powers))]
    ax.yaxis.set_major_locator(FixedLocator([tick for tick in ticks if abs(tick) <= largest]))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(FuncFormatter(_signed))
    ax.set_ylim(*_symmetric(shown, largest))
    _draw_axis(ax, run)
    ax.set_ylabel("energy error of a step")
    missing = run.column("energy_change_nonfinite").sum()
    remark(ax, f"{style.thousands(missing)} not finite, left out" if missing else "")
    return rows


def _acceptance(ax: Axes, run: Run) -> pd.DataFrame:
    """Acceptance probability along the draws, in at most 25 stretches."""
    curve = run.curve("acceptance")
    if run.lines:
        parts = []
        for chain, part in by_chain(curve):
            group = np.arange(len(part)) * min(SMOOTH, len(part)) // len(part)
            parts.append(part.groupby(group)[["x", "value"]].mean().assign(chain=chain))
        curve = pd.concat(parts)
    rows = course(ax, run, "acceptance", curve)
    ax.set_ylim(-0.02, 1.02)
    _draw_axis(ax, run)
    ax.set_ylabel("acceptance probability")
    return rows


def _step_size(ax: Axes, run: Run) -> pd.DataFrame:
    """Step size along the draws if it changes within a chain, else one value for each chain."""
    ax.set_ylabel("step size")
    if len(curve := run.curve("step_size")):
        rows = course(ax, run, "step size", curve)
        _size_axis(ax, curve["value"].to_numpy(dtype=np.float64))
        _draw_axis(ax, run)
        return rows
    sizes, chains = run.column("step_size_median"), np.arange(run.count)
    if run.count > MOST_POINTS:
        ax.set_xlabel("step size of a chain")
        ax.set_ylabel("chains")
        return _histogram(ax, "step size", sizes[np.isfinite(sizes)])
    colours = style.chain_colours(run.count) if run.lines else [style.BLUE] * run.count
    ax.scatter(chains, sizes, color=colours, s=12, lw=0, zorder=3)
    diverged = run.column("divergences") > 0
    ax.plot(chains[diverged], sizes[diverged], "x", ms=6, mew=1.0, color=WRONG, zorder=4)
    _size_axis(ax, sizes)
    ax.set_xlim(-0.6, run.count - 0.4)
    axes.whole_numbers(ax)
    ax.set_xlabel("chain")
    remark(ax, "crosses: chains with divergent steps" if diverged.any() else "")
    return plotted("step size", "of a chain", chains, sizes, chain=chains)


def _size_axis(ax: Axes, sizes: np.ndarray) -> None:
    """An axis from 0 if the sizes are similar, else a logarithmic one."""
    smallest, largest = np.nanmin(sizes), np.nanmax(sizes)
    if smallest > 0 and largest > 5 * smallest:
        axes.log_ticks(ax, smallest / 1.3, largest * 1.3)
    else:
        ax.yaxis.set_major_locator(MaxNLocator(5))
        ax.set_ylim(0, 1.15 * largest or 1.0)


def _draw_axis(ax: Axes, run: Run) -> None:
    """The x axis of a course; it says how many draws a point stands for."""
    axes.whole_numbers(ax)
    width = round(
        2
        * run.curves["x"][run.curves["curve"].isin(["log_posterior", "energy_change", "acceptance", "step_size"])].min()
        - 1
    )
    what = f"draw (points: means of {width:,} draws)" if width > 1 else "draw"
    ax.set_xlabel(f"{what[:-1]}; shaded: all of them)" if width > 1 and run.lines else what)


def _histogram(ax: Axes, panel: str, values: np.ndarray) -> pd.DataFrame:
    counts, edges = np.histogram(values, bins=40)
    ax.stairs(counts, edges, fill=True, color=style.BLUE, alpha=0.6)
    ax.xaxis.set_major_locator(MaxNLocator(5))
    return plotted(panel, "number of chains", (edges[:-1] + edges[1:]) / 2, counts, low=edges[:-1], high=edges[1:])


def _of_kept(run: Run, curve: pd.DataFrame) -> np.ndarray:
    """Values of the chains that are not excluded, or of the bands that are drawn."""
    part = curve[curve["chain"].isin(run.kept)] if run.lines and len(run.kept) else curve
    part = part if run.lines else part[part["quantile"].between(0.05, 0.95)]
    return part[["value", "low", "high"]].to_numpy(dtype=np.float64).ravel()


def _symmetric(shown: np.ndarray, largest: float) -> tuple[float, float]:
    """Limits that show everything, and at least 1 to either side."""
    finite = shown[np.isfinite(shown)]
    return 1.5 * min(-1.0, float(finite.min(initial=0.0))), 1.5 * max(1.0, float(finite.max(initial=0.0)))


def _signed(value: float, _: int | None = None) -> str:
    text = f"{abs(value):g}" if abs(value) < 1000 else style.short_count(abs(value))
    return f"\N{MINUS SIGN}{text}" if value < 0 else text


def _marks_note(run: Run) -> str:
    total = np.nansum(run.column("divergences"))
    return f"{'crosses' if run.lines else 'ticks'}: {style.thousands(total)} divergent steps" if total else ""


def _excluded_note(run: Run) -> str:
    count = run.count - len(run.kept)
    return f"{'dashed' if run.lines else 'not shown'}: {count} excluded" if count else ""


def _varies(run: Run) -> bool:
    """Whether there is more than one step size to see."""
    sizes = np.concatenate([run.column("step_size_min"), run.column("step_size_max")])
    return bool(np.ptp(sizes[np.isfinite(sizes)]) > 0)


def _no_log_posterior(run: Run) -> str:
    return "" if np.isfinite(run.column("log_posterior_mean")).any() else "not reported"


def _no_energy(run: Run) -> str:
    curve = run.curve("energy_change")
    return "" if len(curve) and np.isfinite(curve["value"]).any() else "not reported by this method"


def _no_acceptance(run: Run) -> str:
    return "" if len(run.curve("acceptance")) else "no Metropolis test"


def _no_step_size(run: Run) -> str:
    sizes = run.column("step_size_median")
    if not np.isfinite(sizes).any():
        return "not reported by this method"
    return "" if _varies(run) else f"{sizes[np.isfinite(sizes)][0]:.3g} throughout"


PANELS = (
    Panel("Log posterior", _no_log_posterior, _log_posterior),
    Panel("Energy error", _no_energy, _energy),
    Panel("Acceptance", _no_acceptance, _acceptance),
    Panel("Step size", _no_step_size, _step_size),
)
