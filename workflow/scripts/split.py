"""Divide a data set into training, validation and test rows."""

from bnn_atlas.logs import logged
from bnn_atlas.steps.data import split
from bnn_atlas.workflow.params import settings

with logged(snakemake.log[0]):
    split(snakemake.input[0], snakemake.output[0], int(snakemake.wildcards.split), **settings(snakemake.params))
