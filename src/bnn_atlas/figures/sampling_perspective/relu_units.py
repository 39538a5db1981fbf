"""Directions in which a relu network with one hidden layer does not change: its Jacobian's kernel, and alike units."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.sparse.csgraph import connected_components

from bnn_atlas.figures import style
from bnn_atlas.figures.page import Drawing
from bnn_atlas.figures.shown import Shown
from bnn_atlas.figures.subsets import Subset, locate, parameter_label, read_subset
from bnn_atlas.metrics.tables.arrays import load_functions

KINDS = {
    "jacobian_kernel": {
        "sections": ["subset", "functions"], "runs": "one", "needs": ["one hidden layer", "one input"],
        "columns": "panel draw x y",
    },
    "flat_likelihood": {
        "sections": ["subset", "functions"], "needs": ["one hidden layer"],
        "columns": "run label draw units sensitivity",
    },
}  # fmt: skip

RANK = 1e-8
"""Singular values below this share of the largest are zero."""
CHAIN = 1
"""The chain that is drawn: the second, as in the published figure, or the first if there is only one."""


def jacobian_kernel(shown: Sequence[Shown]) -> Drawing:
    """Draws of a 1-m-1 relu network without biases, and their deviations from the mean in the image and the kernel.

    The Jacobian has the derivatives of the function on the training rows by the weights, at the mean of the chain's
    draws; its image is the span of its right singular vectors, and its kernel is the space orthogonal to them. Panels:
    both weights of the first unit; two incoming weights of the deviations, projected on the image and on the kernel.
    Raises ValueError for another network.
    """
    run = shown[0]
    if run.hidden[0] < 2:
        raise ValueError(f"run {run.run} has one hidden unit; the figure needs two or more")
    x = load_functions(run.files["functions"]).train_x
    assert x is not None
    width, subset = run.hidden[0], read_subset(run.files["subset"])
    into = [f"layer0.weight[{i},0]" for i in range(width)]
    out = [f"layer1.weight[0,{i}]" for i in range(width)]
    chain = min(CHAIN, len(subset.chains) - 1)
    theta = locate(subset, (*into, *out), run.files["subset"])[chain].astype(np.float64)
    image, kernel, rank = projections(theta, jacobian(theta.mean(axis=0), np.asarray(x[:, 0], np.float64)))
    share = kernel.var(axis=0).sum() / theta.var(axis=0).sum()
    first, second, last = (parameter_label(name) for name in (into[0], into[1], out[0]))
    panels = {
        "draws": (theta[:, [0, width]], first, last),
        f"image (rank {rank})": (image[:, :2], first, second),
        f"kernel ({100 * share:.0f}% of the variance)": (kernel[:, :2], first, second),
    }
    figure = Figure(figsize=(style.TEXT_WIDTH, 2.4))
    parts = []
    axes = figure.subplots(1, 3)
    axes[2].sharex(axes[1])
    axes[2].sharey(axes[1])
    for ax, (title, (points, horizontal, vertical)) in zip(axes, panels.items(), strict=True):
        ax.plot(*points.T, ls="none", marker=".", ms=2.5, mew=0, alpha=0.3, color=style.BLUE, rasterized=True)
        ax.axhline(0, color=style.GREY, lw=0.6)
        ax.axvline(0, color=style.GREY, lw=0.6)
        ax.set_title(title)
        ax.set_xlabel(horizontal)
        ax.set_ylabel(vertical)
        parts.append(pd.DataFrame(points, columns=["x", "y"]).assign(panel=title, draw=np.arange(len(points))))
    data = pd.concat(parts, ignore_index=True)[["panel", "draw", "x", "y"]]
    return Drawing(figure, data)


def jacobian(theta: np.ndarray, x: np.ndarray) -> np.ndarray:
    """[n, 2 m]: derivatives of f(x) = sum_j v_j relu(w_j x) by theta = (w, v), at each of the rows x [n]."""
    w, v = np.split(theta, 2)
    z = np.outer(x, w)
    return np.concatenate([v * (z > 0) * x[:, None], np.maximum(z, 0.0)], axis=1)


def projections(theta: np.ndarray, slopes: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Deviations of theta [s, p] from their mean, projected on image and kernel of a Jacobian [n, p], and its rank."""
    _, singular, right = np.linalg.svd(slopes, full_matrices=True)
    rank = int((singular > RANK * singular[0]).sum())
    deviations, basis = theta - theta.mean(axis=0), right[:rank]
    image = deviations @ basis.T @ basis
    return image, deviations - image, rank


LEVEL = 0.01
"""Probability that units with random signs and sizes include a pair that counts as alike."""
LARGEST = 0.999
CONSTANT = 1e-12
"""Length of a centred column of activations below which a unit counts as constant on the rows, and is in no group."""
BINS = 40
FLOOR = 1e-8
"""Smaller sensitivities are drawn here: the arithmetic of the run could not distinguish them from 0."""


def flat_likelihood(shown: Sequence[Shown]) -> Drawing:
    """Sensitivity of a relu network with one hidden layer to mixing units that are alike, a column per run.

    Above, the groups of all draws of the first chain by their sensitivity, with their median; below, the median of each
    draw's groups in order of the draws. Axes are logarithmic and shared, so that columns can be compared; values below
    `FLOOR` are drawn there. The subset has layer0.weight and layer0.bias, the functions give the training rows. Raises
    ValueError for another network.
    """
    tables = [_sensitivities(run) for run in shown]
    figure = Figure(figsize=(style.TEXT_WIDTH if len(shown) > 1 else style.COLUMN_WIDTH, 3.2))
    axes = figure.subplots(2, len(shown), squeeze=False, sharex="row", sharey="row")
    largest = max((table["sensitivity"].max() for table in tables if len(table)), default=1.0)
    bins = np.geomspace(FLOOR, max(largest, 10 * FLOOR), BINS + 1)
    for (top, bottom), run, table in zip(axes.T, shown, tables, strict=True):
        top.set_title(run.label)
        top.set_xlabel("$S$")
        bottom.set_xlabel("draw")
        if table.empty:
            top.text(0.5, 0.5, "no units are alike", transform=top.transAxes, ha="center", fontsize=7)
            continue
        drawn = table["sensitivity"].clip(lower=FLOOR)
        share = np.full(len(drawn), 1 / len(drawn))
        top.hist(drawn, bins, weights=share, histtype="stepfilled", color=style.BLUE, alpha=0.5)
        top.axvline(drawn.median(), color=style.VERMILION, lw=1.2)
        course = table.groupby("draw")["sensitivity"].median().clip(lower=FLOOR)
        bottom.plot(course.index, course, color=style.BLUE, lw=0.4)
        bottom.axhline(course.median(), color=style.VERMILION, lw=1.2)
        if below := float((table["sensitivity"] < FLOOR).mean()):
            note = f"{100 * below:.2g}% below $10^{{{np.log10(FLOOR):.0f}}}$"
            top.text(0.5, 0.96, note, transform=top.transAxes, ha="center", va="top", fontsize=6, color=style.GREY)
    axes[0, 0].set_xscale("log")
    axes[1, 0].set_yscale("log")
    axes[0, 0].set_ylabel("share of groups")
    axes[1, 0].set_ylabel("median $S$ of a draw")
    data = pd.concat([t.assign(run=r.run, label=r.label) for t, r in zip(tables, shown, strict=True)])
    return Drawing(figure, data[["run", "label", "draw", "units", "sensitivity"]])


def sensitivities(x: np.ndarray, weights: np.ndarray, biases: np.ndarray) -> list[tuple[int, float]]:
    """Size k and sensitivity S of each group of k > 1 alike units of one draw.

    With a_j = relu(x w_j + b_j) / |(w_j, b_j)| on the rows [n], which fixes the scale that a relu unit is free to have,
    units are alike if the correlation of their a_j is above min(sqrt(2 log(pairs / 0.01) / n), 0.999), and a group is
    what such pairs connect. S is the smallest singular value of A Q, where A has the a_j of the group and Q an
    orthonormal basis of output weights that add up to 0: moving output weight within the group by t changes the
    function on the rows by at least S |t|, and in one direction by no more.

    Args:
        x: rows [n, d].
        weights: [m, d].
        biases: [m].
    """
    length = np.sqrt((weights**2).sum(axis=1) + biases**2)
    activations = np.maximum(x @ weights.T + biases, 0.0) / np.where(length > CONSTANT, length, 1.0)
    centred = activations - activations.mean(axis=0)
    norms = np.linalg.norm(centred, axis=0)
    active = norms > CONSTANT
    activations, unit = activations[:, active], centred[:, active] / norms[active]
    count = unit.shape[1]
    if count < 2:
        return []
    alike = min(np.sqrt(2 * np.log(count * (count - 1) / 2 / LEVEL) / len(x)), LARGEST)
    number, group = connected_components(unit.T @ unit > alike, directed=False)
    found = []
    for members in (np.flatnonzero(group == i) for i in range(number)):
        k = len(members)
        if k > 1:
            basis = np.linalg.svd(np.eye(k) - 1 / k)[0][:, : k - 1]
            found.append((k, float(np.linalg.svd(activations[:, members] @ basis, compute_uv=False).min())))
    return found


def _sensitivities(run: Shown) -> pd.DataFrame:
    """Columns draw, units, sensitivity: the groups of every draw of the first chain."""
    x = load_functions(run.files["functions"]).train_x
    if x is None:
        raise ValueError(f"run {run.run}: its functions hold no training rows; the figure needs tabular data")
    subset = read_subset(run.files["subset"])
    weights, biases = _first_layer(subset, run, x.shape[1])
    rows = [
        (draw, *group)
        for draw, (w, b) in enumerate(zip(weights, biases, strict=True))
        for group in sensitivities(np.asarray(x, np.float64), w, b)
    ]
    return pd.DataFrame(rows, columns=["draw", "units", "sensitivity"])


def _first_layer(subset: Subset, run: Shown, inputs: int) -> tuple[np.ndarray, np.ndarray]:
    """Weights [s, m, d] and biases [s, m] of the first chain."""
    width, file = run.hidden[0], run.files["subset"]
    names = tuple(f"layer0.weight[{i},{j}]" for i in range(width) for j in range(inputs))
    weights = locate(subset, names, file)[0].astype(np.float64)
    biases = locate(subset, tuple(f"layer0.bias[{i}]" for i in range(width)), file)[0].astype(np.float64)
    return weights.reshape(len(weights), width, inputs), biases
