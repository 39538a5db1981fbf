"""Pool a study's table over seeds and splits."""

from bnn_atlas.logs import logged
from bnn_atlas.metrics.summary import GridPoint, write_summary

with logged(snakemake.log[0]):
    write_summary(
        snakemake.input[0],
        {name: GridPoint(**run) for name, run in snakemake.params.runs.items()},
        snakemake.output.parquet,
        snakemake.output.csv,
    )
