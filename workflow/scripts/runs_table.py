"""List the runs of a study with their settings."""

from bnn_atlas.logs import logged
from bnn_atlas.steps.tables import runs_table

with logged(snakemake.log[0]):
    runs_table(snakemake.output[0], rows=snakemake.params.rows)
