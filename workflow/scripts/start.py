"""Take the starts of a block of chains from another run."""

from bnn_atlas.logs import logged
from bnn_atlas.steps.starts import take_starts
from bnn_atlas.workflow.params import settings

with logged(snakemake.log[0]):
    take_starts(snakemake.input.pool, snakemake.input.arrays, snakemake.output[0], **settings(snakemake.params))
