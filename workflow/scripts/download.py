"""Download one registered file."""

from bnn_atlas.config.datasets import DatasetEntry
from bnn_atlas.data.download import fetch
from bnn_atlas.logs import logged

with logged(snakemake.log[0]):
    fetch(
        DatasetEntry.model_validate(snakemake.params.entry),
        snakemake.wildcards.file,
        snakemake.output[0],
        mirror=snakemake.config["mirror"],
        cache=snakemake.config["cache"],
    )
