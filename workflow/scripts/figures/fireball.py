"""Bivariate marginal densities."""

from bnn_atlas.figures.sampling_perspective import fireball
from bnn_atlas.figures.style import FigureOutputs
from bnn_atlas.logs import logged
from bnn_atlas.provenance import collect

with logged(snakemake.log[0]):
    fireball(snakemake.input.grid, FigureOutputs.of(snakemake.output), collect(snakemake.params.settings, root="."))
