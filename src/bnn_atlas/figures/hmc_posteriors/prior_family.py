"""Scores under priors of different families and equal variance."""

from collections.abc import Sequence

from bnn_atlas.figures.page import Drawing
from bnn_atlas.figures.shown import Shown
from bnn_atlas.figures.sweeps.figure import draw_sweep
from bnn_atlas.figures.sweeps.scores import Field

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


def prior_family(shown: Sequence[Shown]) -> Drawing:
    """Scores of one posterior with each family of prior; Izmailov et al. 2021, section 8.2.

    Numbers are those of `sweeps.scores.sweep_table`, with the kind of the prior as x.
    """
    return draw_sweep(shown, FIELD, published="prior_family")
