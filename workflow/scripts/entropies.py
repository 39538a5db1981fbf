"""Compare the forms of the entropy at a fit."""

from bnn_atlas.logs import logged

with logged(snakemake.log[0]):
    from bnn_atlas.runtime import configure
    from bnn_atlas.workflow.params import settings

    given = settings(snakemake.params)
    configure(snakemake.threads, "gpu" if snakemake.resources.gpu else "cpu", given["posterior"]["float64"])

    from bnn_atlas.steps.comparisons import entropies

    files = snakemake.input
    entropies(files.dataset, files.split, files.fit, snakemake.output[0], **given)
