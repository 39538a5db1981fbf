"""Divide a data set into training, validation and test rows."""

from bnn_atlas.config.studies import SplitConfig
from bnn_atlas.data.splits import split_file
from bnn_atlas.logs import logged

with logged(snakemake.log[0]):
    config = SplitConfig.model_validate(snakemake.params.split)
    split_file(snakemake.input[0], snakemake.output[0], config, int(snakemake.wildcards.split))
