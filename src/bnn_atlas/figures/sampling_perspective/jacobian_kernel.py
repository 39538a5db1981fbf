"""A posterior split into the directions that change the function at its mean, and those that do not."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from bnn_atlas.figures import style
from bnn_atlas.figures.page import Drawing
from bnn_atlas.figures.shown import Shown
from bnn_atlas.figures.subsets import locate, parameter_label, read_subset
from bnn_atlas.metrics.tables.arrays import load_functions

KIND = {"sections": ["subset", "functions"], "runs": "one"}

RANK = 1e-8
"""Singular values below this share of the largest are zero."""
CHAIN = 1
"""The chain that is drawn, the second one as in the published figure; the first where there is one only."""


def jacobian_kernel(shown: Sequence[Shown]) -> Drawing:
    """Draws of a 1-m-1 relu network without biases, and their deviations from the mean in the image and the kernel.

    The Jacobian is that of the function on the training rows by the weights, at the mean of the chain's draws; its
    image is the span of its right singular vectors, its kernel what is orthogonal to them. Panels: both weights of the
    first unit; the two incoming weights of the deviations projected on the image, and on the kernel. Raises ValueError
    for another network.
    """
    run = shown[0]
    if len(run.hidden) != 1 or run.hidden[0] < 2:
        raise ValueError(
            f"run {run.run} has the hidden layers {list(run.hidden)}; the figure is about one of two units"
        )
    x = load_functions(run.files["functions"]).train_x
    if x is None or x.shape[1] != 1:
        raise ValueError(f"run {run.run}: the figure is about a table with one input")
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
        f"kernel ({100 * share:.0f} % of the variance)": (kernel[:, :2], first, second),
    }
    figure = Figure(figsize=(style.TEXT_WIDTH, 2.4))
    parts = []
    for ax, (title, (points, horizontal, vertical)) in zip(figure.subplots(1, 3), panels.items(), strict=True):
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
