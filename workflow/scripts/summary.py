"""Pool a study's table over seeds and splits."""

from bnn_atlas.logs import logged
from bnn_atlas.steps.tables import summary
from bnn_atlas.workflow.params import settings

with logged(snakemake.log[0]):
    summary(snakemake.input[0], snakemake.output.parquet, snakemake.output.csv, **settings(snakemake.params))
