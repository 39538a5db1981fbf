"""Evaluate the functions of some draws of a pool for one figure."""

from bnn_atlas.logs import logged
from bnn_atlas.runtime import configure

configure(snakemake.threads, "gpu" if snakemake.resources.gpu else "cpu", snakemake.params.posterior["float64"])

from bnn_atlas.steps.functions import functions

with logged(snakemake.log[0]):
    functions(
        snakemake.input.dataset,
        snakemake.input.split,
        snakemake.input.pool,
        snakemake.output[0],
        **dict(snakemake.params.items()),
    )
