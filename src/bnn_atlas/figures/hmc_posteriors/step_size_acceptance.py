"""Acceptance and scores of HMC against the step size."""

from collections.abc import Sequence

from bnn_atlas.figures.page import FigureOutputs
from bnn_atlas.figures.shown import Shown
from bnn_atlas.figures.sweeps.figure import draw_sweep
from bnn_atlas.figures.sweeps.panels import Panel, Series
from bnn_atlas.figures.sweeps.scores import Field
from bnn_atlas.provenance import Provenance

KIND = {"files": ["table"]}

FIELD = Field("method.step_size", "step size")
ACCEPTANCE = (Panel("acceptance_mean", "acceptance probability", second="acceptance_chain_min"),)
PUBLISHED = (
    Series("the paper's network", (1.0e-5, 5.0e-5, 1.0e-4, 5.0e-4), {"acceptance_mean": (0.722, 0.463, 0.222, 0.125)}),
)
"""Izmailov et al. 2021, section 4.2."""


def step_size_acceptance(shown: Sequence[Shown], outputs: FigureOutputs, provenance: Provenance) -> None:
    """Acceptance probability (mean over chains, and the chain with the lowest) and scores against the step size.

    Izmailov et al. 2021, section 4.2. Numbers are those of `sweeps.scores.sweep_table`.
    """
    draw_sweep(shown, outputs, provenance, FIELD, before=ACCEPTANCE, published=PUBLISHED)
