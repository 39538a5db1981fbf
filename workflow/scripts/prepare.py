"""Turn raw files into named arrays."""

from bnn_atlas.config.datasets import DatasetEntry
from bnn_atlas.data import dataset
from bnn_atlas.data.prepare import prepare
from bnn_atlas.logs import logged

with logged(snakemake.log[0]):
    entry = DatasetEntry.model_validate(snakemake.params.entry)
    dataset.save(snakemake.output[0], prepare(snakemake.wildcards.dataset, entry, snakemake.input))
