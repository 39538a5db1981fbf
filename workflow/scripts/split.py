"""Divide a data set into training, validation and test rows."""

from bnn_atlas.config.studies import SplitConfig
from bnn_atlas.data import dataset, splits
from bnn_atlas.logs import logged

with logged(snakemake.log[0]):
    data = dataset.load(snakemake.input[0])
    config = SplitConfig.model_validate(snakemake.params.split)
    split = splits.make_split(len(data.x), config, int(snakemake.wildcards.split))
    splits.save_split(snakemake.output[0], data, split, validation_in_likelihood=config.validation_in_likelihood)
