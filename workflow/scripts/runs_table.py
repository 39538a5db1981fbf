"""List the runs of a study with their settings."""

from bnn_atlas.logs import logged
from bnn_atlas.metrics.summary import write_runs

with logged(snakemake.log[0]):
    write_runs(snakemake.params.rows, snakemake.output[0])
