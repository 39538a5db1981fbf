"""Scores against the temperature of the posterior."""

from collections.abc import Sequence

from bnn_atlas.figures.page import Drawing
from bnn_atlas.figures.shown import Shown
from bnn_atlas.figures.sweeps.figure import draw_sweep
from bnn_atlas.figures.sweeps.scores import Field

KIND = {"files": ["table"]}

FIELD = Field("temperature", "temperature", marks=(1.0,))


def cold_posterior(shown: Sequence[Shown]) -> Drawing:
    """Scores against the temperature T of (likelihood x prior)^(1 / T), a line per label; optima are level lines.

    Izmailov et al. 2021, section 7: a cold posterior effect is a score that is best below T = 1. Numbers are those of
    `sweeps.scores.sweep_table`.
    """
    return draw_sweep(shown, FIELD, published="cold_posterior")
