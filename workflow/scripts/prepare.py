"""Turn raw files into named arrays."""

from bnn_atlas.config.datasets import DatasetEntry
from bnn_atlas.data.prepare import prepare_file
from bnn_atlas.logs import logged

with logged(snakemake.log[0]):
    entry = DatasetEntry.model_validate(snakemake.params.entry)
    prepare_file(snakemake.wildcards.dataset, entry, snakemake.input, snakemake.output[0])
