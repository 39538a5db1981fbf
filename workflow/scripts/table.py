"""Put the tables of all runs of a study into one."""

from bnn_atlas.logs import logged
from bnn_atlas.metrics.tables import concat_tables

with logged(snakemake.log[0]):
    concat_tables(snakemake.input, snakemake.output[0])
