"""Marginal densities of single parameters, drawn by R."""

from bnn_atlas.figures.sampling_perspective import marginal_densities
from bnn_atlas.figures.style import FigureOutputs
from bnn_atlas.logs import logged
from bnn_atlas.provenance import collect

with logged(snakemake.log[0]):
    marginal_densities(
        snakemake.input.draws,
        FigureOutputs.of(snakemake.output),
        collect(snakemake.params.settings, root="."),
        prior_sd=snakemake.params.prior_sd,
    )
