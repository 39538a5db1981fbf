"""Turn raw files into named arrays."""

from bnn_atlas.logs import logged
from bnn_atlas.steps.data import prepare
from bnn_atlas.workflow.params import settings

with logged(snakemake.log[0]):
    prepare(snakemake.wildcards.dataset, snakemake.input, snakemake.output[0], **settings(snakemake.params))
