"""Acceptance and scores of HMC against the step size."""

from collections.abc import Sequence

from bnn_atlas.figures.page import Drawing
from bnn_atlas.figures.shown import Shown
from bnn_atlas.figures.sweeps.figure import draw_sweep
from bnn_atlas.figures.sweeps.panels import Panel
from bnn_atlas.figures.sweeps.scores import Field

KIND = {"files": ["table"]}

FIELD = Field("method.step_size", "step size")
ACCEPTANCE = (Panel("acceptance_mean", "acceptance probability", second="acceptance_chain_min"),)


def step_size_acceptance(shown: Sequence[Shown]) -> Drawing:
    """Acceptance probability (mean over chains, and the chain with the lowest) and scores against the step size.

    Izmailov et al. 2021, section 4.2. Numbers are those of `sweeps.scores.sweep_table`.
    """
    return draw_sweep(shown, FIELD, before=ACCEPTANCE, published="step_size_acceptance")
