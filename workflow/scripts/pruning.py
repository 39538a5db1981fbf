"""Predict with networks of which some parameters are set to 0."""

from bnn_atlas.logs import logged

with logged(snakemake.log[0]):
    from bnn_atlas.runtime import configure
    from bnn_atlas.workflow.params import settings

    given = settings(snakemake.params)
    configure(snakemake.threads, "gpu" if snakemake.resources.gpu else "cpu", given["posterior"]["float64"])

    from bnn_atlas.steps.symmetry import pruning

    files = snakemake.input
    sources = list(files.frames), list(files.pools)
    pruning(files.dataset, files.split, *sources, **dict(snakemake.output.items()), **given)
