"""Evaluate the functions of some draws of a pool."""

from bnn_atlas.logs import logged

with logged(snakemake.log[0]):
    from bnn_atlas.runtime import configure
    from bnn_atlas.workflow.params import settings

    given = settings(snakemake.params)
    posterior = given["posterior"]
    configure(snakemake.threads, "gpu" if snakemake.resources.gpu else "cpu", posterior["float64"])

    from bnn_atlas.steps.evaluations import functions

    functions(snakemake.input.dataset, snakemake.input.split, snakemake.input.pool, snakemake.output[0], **given)
