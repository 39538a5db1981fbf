"""Sample a block of chains."""

from bnn_atlas.logs import logged
from bnn_atlas.runtime import configure

posterior = snakemake.params.posterior
device = "gpu" if snakemake.resources.gpu else "cpu"
configure(snakemake.threads, device, posterior["float64"], posterior["data_shards"])

from bnn_atlas.steps.sample import sample

with logged(snakemake.log[0]):
    sample(
        snakemake.input.dataset,
        snakemake.input.split,
        snakemake.input.start,
        snakemake.output.trace,
        root=".",
        **dict(snakemake.params.items()),
    )
