"""Put the tables of all runs of a study into one."""

from bnn_atlas.logs import logged
from bnn_atlas.steps.tables import table

with logged(snakemake.log[0]):
    table(snakemake.input, snakemake.output[0])
