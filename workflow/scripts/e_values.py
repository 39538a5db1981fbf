"""E-values of every draw of a run against the warm starts."""

from bnn_atlas.logs import logged
from bnn_atlas.runtime import configure

configure(snakemake.threads, "gpu" if snakemake.resources.gpu else "cpu", snakemake.params.posterior["float64"])

from bnn_atlas.steps.e_values import e_values

with logged(snakemake.log[0]):
    e_values(
        snakemake.input.dataset,
        snakemake.input.split,
        snakemake.input.traces,
        snakemake.input.starts,
        snakemake.output[0],
        **dict(snakemake.params.items()),
    )
