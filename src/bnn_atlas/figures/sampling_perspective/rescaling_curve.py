"""What rescaling a hidden unit does to its prior density, drawn by Rcode/rescaling_curve.R."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.stats import norm

from bnn_atlas.figures.ggplot import RDrawing
from bnn_atlas.figures.shown import Shown
from bnn_atlas.published import published_numbers

KIND = {"runs": "none"}

POINTS = 451


def rescaling_curve(
    shown: Sequence[Shown],
    *,
    b: float = 0.9,
    w1: float = 0.5,
    w2: float = 0.8,
    limits: tuple[float, float] = (0.6, 1.05),
) -> RDrawing:
    """The curve h(c) of `prior_change` with its two zeros: c = 1, where nothing is rescaled, and that of `other_zero`.

    An open black mark is where the paper has the other zero. It shows no runs: `shown` is empty, ValueError
    else. The CSV has the columns kind (`curve`, `other zero`, `trivial zero`, `published zero`), c and h.
    """
    if shown:
        raise ValueError(f"rescaling_curve draws a formula; take the runs out of its settings: {shown[0].run}, ...")
    c = np.linspace(*limits, POINTS)
    curve = pd.DataFrame({"kind": "curve", "c": c, "h": prior_change(c, b, w1, w2)})
    zeros = pd.DataFrame({"kind": ["other zero", "trivial zero"], "c": [other_zero(b, w1, w2, limits), 1.0], "h": 0.0})
    (theirs,) = published_numbers("sampling_perspective", "rescaling")
    paper = pd.DataFrame({"kind": ["published zero"], "c": [float(theirs.value)], "h": 0.0})
    return RDrawing(
        "rescaling_curve",
        pd.concat([curve, zeros, paper], ignore_index=True),
        {"b": float(b), "w1": float(w1), "w2": float(w2)},
    )


def prior_change(c: np.ndarray | float, b: float, w1: float, w2: float) -> np.ndarray:
    """How much prior density a unit loses by rescaling: h(c) = p(b) p(w1) p(w2) - p(b c) p(w1 c) p(w2 / c).

    A ReLU unit with bias b, incoming weight w1 and outgoing weight w2 computes the same function with c b, c w1 and
    w2 / c for every c > 0. p is the density of N(0, 1). From Sommer et al. 2025, A Sampling Perspective.
    """
    c = np.asarray(c, dtype=float)
    return np.asarray(norm.pdf(b) * norm.pdf(w1) * norm.pdf(w2) - norm.pdf(b * c) * norm.pdf(w1 * c) * norm.pdf(w2 / c))


def other_zero(b: float, w1: float, w2: float, limits: tuple[float, float]) -> float:
    """The zero of `prior_change` within `limits` that is not c = 1; in closed form it is |w2| / sqrt(b^2 + w1^2).

    h has one minimum, at the square root of that, and one zero on either side. Raises ValueError where the other zero
    lies outside the limits, or falls together with c = 1.
    """
    minimum = np.sqrt(abs(w2) / np.hypot(b, w1))
    low, high = (limits[0], minimum) if minimum < 1 else (minimum, limits[1])
    if np.isclose(minimum, 1) or low >= high or prior_change(low, b, w1, w2) * prior_change(high, b, w1, w2) > 0:
        raise ValueError(
            f"h(c) has no zero but c = 1 within {limits} for b = {b}, w1 = {w1}, w2 = {w2}; "
            f"its other zero is {minimum**2:.4g}"
        )
    return float(brentq(prior_change, low, high, args=(b, w1, w2), xtol=1e-12))
