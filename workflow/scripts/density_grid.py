"""Accumulate bivariate marginal densities of a pool."""

from bnn_atlas.logs import logged
from bnn_atlas.steps.traces import density_grid
from bnn_atlas.workflow.params import settings

with logged(snakemake.log[0]):
    density_grid(snakemake.input.pool, snakemake.output[0], **settings(snakemake.params))
