"""Compare networks of pairs of chains along lines, before and after alignment."""

from bnn_atlas.logs import logged

with logged(snakemake.log[0]):
    from bnn_atlas.runtime import configure
    from bnn_atlas.workflow.params import settings

    given = settings(snakemake.params)
    configure(snakemake.threads, "gpu" if snakemake.resources.gpu else "cpu", given["posterior"]["float64"])

    from bnn_atlas.steps.symmetry import barriers

    files = snakemake.input
    barriers(files.dataset, files.split, files.pool, **dict(snakemake.output.items()), **given)
