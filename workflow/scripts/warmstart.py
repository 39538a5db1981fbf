"""Train the networks from which the chains of a block start."""

from bnn_atlas.logs import logged
from bnn_atlas.runtime import configure

configure(snakemake.threads, "gpu" if snakemake.resources.gpu else "cpu", snakemake.params.posterior["float64"])

from bnn_atlas.steps.warmstart import warm_start

with logged(snakemake.log[0]):
    warm_start(snakemake.input.dataset, snakemake.input.split, snakemake.output[0], **dict(snakemake.params.items()))
