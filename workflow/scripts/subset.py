"""Take chosen parameters and draws out of a pool, as a tidy table."""

from bnn_atlas.logs import logged
from bnn_atlas.steps.traces import subset
from bnn_atlas.workflow.params import settings

with logged(snakemake.log[0]):
    subset(snakemake.input.pool, snakemake.output[0], **settings(snakemake.params))
