"""Figures of the study `sampling_perspective`."""

from bnn_atlas.figures.sampling_perspective.densities import marginal_densities
from bnn_atlas.figures.sampling_perspective.fireballs import fireball
from bnn_atlas.figures.sampling_perspective.lppd import cumulative_lppd

__all__ = ["cumulative_lppd", "fireball", "marginal_densities"]
