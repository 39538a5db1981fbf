"""Scores under priors of different families and equal variance."""

from collections.abc import Sequence

from bnn_atlas.figures.page import FigureOutputs
from bnn_atlas.figures.shown import Shown
from bnn_atlas.figures.sweeps.figure import draw_sweep
from bnn_atlas.figures.sweeps.panels import Series
from bnn_atlas.figures.sweeps.scores import Field
from bnn_atlas.provenance import Provenance

KIND = {"files": ["table"]}

FIELD = Field(
    "prior.kind",
    "prior",
    categories={
        "normal": "Gaussian",
        "mixture": "mixture",
        "logistic": "logistic",
        "laplace": "Laplace",
        "student_t": "Student's t",
    },
)
PUBLISHED = (
    Series(
        "IMDB",
        ("normal", "mixture", "logistic"),
        {"accuracy": (0.866, 0.863, 0.869), "lppd": (-0.311, -0.317, -0.304), "ece": (0.029, 0.025, 0.024)},
    ),
)
"""Izmailov et al. 2021, section 8.2, all of variance 1/40."""


def prior_family(shown: Sequence[Shown], outputs: FigureOutputs, provenance: Provenance) -> None:
    """Scores of one posterior with each family of prior; Izmailov et al. 2021, section 8.2.

    Numbers are those of `sweeps.scores.sweep_table`, with the kind of the prior as x.
    """
    draw_sweep(shown, outputs, provenance, FIELD, published=PUBLISHED)
