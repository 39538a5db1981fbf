"""Scores and mixing of HMC against the length of its trajectories."""

from collections.abc import Sequence

from bnn_atlas.figures.page import Drawing
from bnn_atlas.figures.shown import Shown
from bnn_atlas.figures.sweeps.figure import draw_sweep
from bnn_atlas.figures.sweeps.panels import Panel
from bnn_atlas.figures.sweeps.scores import PERIODS, Field
from bnn_atlas.metrics.judgement.checks import RHAT

KIND = {"files": ["table"]}

FIELD = Field(PERIODS, "trajectory length,\nquarter periods of the prior", is_log=False)
MIXING = (
    Panel("rhat_function_median", "R-hat of function values", second="rhat_function_max", limit=RHAT.look),
    Panel("ess_bulk_function_median", "bulk ESS of function values", second="ess_bulk_function_min", is_log=True),
    Panel("ess_bulk_function_median_per_gradient", "bulk ESS per gradient"),
)


def trajectory_length(shown: Sequence[Shown]) -> Drawing:
    """Scores, R-hat and effective sample sizes of function values against trajectory lengths in quarter periods.

    A quarter period pi / 2 sd sqrt(T) is the time in which a trajectory under the prior alone turns position into
    momentum (Izmailov et al. 2021, section 4.1). Numbers are those of `sweeps.scores.sweep_table`.
    """
    return draw_sweep(shown, FIELD, after=MIXING, published="trajectory_length")
