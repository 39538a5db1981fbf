"""Draw networks from a Gaussian with the moments of another run's draws."""

from bnn_atlas.logs import logged
from bnn_atlas.steps.starts import compact_starts
from bnn_atlas.workflow.params import settings

with logged(snakemake.log[0]):
    files = snakemake.input
    compact_starts(files.pool, files.frame or None, snakemake.output[0], **settings(snakemake.params))
