"""Make one pool of all blocks' traces."""

from bnn_atlas.logs import logged
from bnn_atlas.traces.pool import pool_traces

with logged(snakemake.log[0]):
    pool_traces(snakemake.input, snakemake.output[0])
