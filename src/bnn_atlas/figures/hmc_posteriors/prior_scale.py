"""Scores against the variance of the prior."""

from collections.abc import Sequence

from bnn_atlas.figures.page import FigureOutputs
from bnn_atlas.figures.shown import Shown
from bnn_atlas.figures.sweeps.figure import draw_sweep
from bnn_atlas.figures.sweeps.panels import Series
from bnn_atlas.figures.sweeps.scores import VARIANCE, Field
from bnn_atlas.provenance import Provenance

KIND = {"files": ["table"]}

FIELD = Field(VARIANCE, "prior variance")
PUBLISHED = (
    Series("CIFAR-10, ends of its range", (1 / 40, 1.0), {"accuracy": (0.867, 0.880)}, read_off=True),
    Series("IMDB, ends of its range", (1 / 160, 1.0), {"accuracy": (0.849, 0.8665)}, read_off=True),
)
"""Izmailov et al. 2021, section 8.1; of the three values between the ends only the accuracy is known."""


def prior_scale(shown: Sequence[Shown], outputs: FigureOutputs, provenance: Provenance) -> None:
    """Scores against the variance of the prior that all parameters share, a line per label.

    Izmailov et al. 2021, section 8.1. Numbers are those of `sweeps.scores.sweep_table`.
    """
    draw_sweep(shown, outputs, provenance, FIELD, published=PUBLISHED)
