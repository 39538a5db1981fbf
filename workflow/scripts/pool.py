"""Make one pool of the traces of all blocks."""

from bnn_atlas.logs import logged
from bnn_atlas.steps.traces import pool

with logged(snakemake.log[0]):
    pool(snakemake.input, snakemake.output[0])
