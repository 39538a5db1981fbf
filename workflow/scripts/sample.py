"""Sample a block of chains."""

from bnn_atlas.logs import logged
from bnn_atlas.runtime import configure

configure(snakemake.threads, snakemake.config["device"], snakemake.params.posterior["float64"])

from bnn_atlas.steps import sample

with logged(snakemake.log[0]):
    sample(
        snakemake.input.dataset,
        snakemake.input.split,
        snakemake.input.start,
        snakemake.output[0],
        root=".",
        **dict(snakemake.params.items()),
    )
