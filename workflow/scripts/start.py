"""Take the starts of a block of chains from draws of another run."""

from bnn_atlas.logs import logged
from bnn_atlas.steps.start import start_from_draws
from bnn_atlas.workflow.params import settings

with logged(snakemake.log[0]):
    start_from_draws(snakemake.input.pool, snakemake.output[0], **settings(snakemake.params))
