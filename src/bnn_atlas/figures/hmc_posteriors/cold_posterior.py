"""Scores against the temperature of the posterior."""

from collections.abc import Sequence

from bnn_atlas.figures.page import FigureOutputs
from bnn_atlas.figures.shown import Shown
from bnn_atlas.figures.sweeps.figure import draw_sweep
from bnn_atlas.figures.sweeps.panels import Series
from bnn_atlas.figures.sweeps.scores import Field
from bnn_atlas.provenance import Provenance

KIND = {"files": ["table"]}

FIELD = Field("temperature", "temperature", marks=(1.0,))
PUBLISHED = (
    Series(
        "IMDB",
        (0.03, 0.1, 0.3, 1.0, 3.0, 10.0),
        {
            "accuracy": (0.772, 0.797, 0.83, 0.865, 0.83, 0.672),
            "lppd": (-0.47, -0.425, -0.378, -0.313, -0.42, -0.66),
        },
        read_off=True,
    ),
)
"""Izmailov et al. 2021, section 7, of HMC."""


def cold_posterior(shown: Sequence[Shown], outputs: FigureOutputs, provenance: Provenance) -> None:
    """Scores against the temperature T of (likelihood x prior)^(1 / T), a line per label; optima are level lines.

    Izmailov et al. 2021, section 7: a cold posterior effect is a score that is best below T = 1. Numbers are those of
    `sweeps.scores.sweep_table`.
    """
    draw_sweep(shown, outputs, provenance, FIELD, published=PUBLISHED)
