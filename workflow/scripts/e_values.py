"""E-values of every draw of a run against the warm starts."""

from bnn_atlas.logs import logged

with logged(snakemake.log[0]):
    from bnn_atlas.runtime import configure
    from bnn_atlas.workflow.params import settings

    given = settings(snakemake.params)
    posterior = given["posterior"]
    configure(snakemake.threads, "gpu" if snakemake.resources.gpu else "cpu", posterior["float64"])

    from bnn_atlas.steps.comparisons import e_values

    e_values(
        snakemake.input.dataset,
        snakemake.input.split,
        snakemake.input.traces,
        snakemake.input.starts,
        snakemake.output[0],
        **given,
    )
