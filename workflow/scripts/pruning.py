"""Predict with networks of which some parameters are set to 0."""

from bnn_atlas.logs import logged

with logged(snakemake.log[0]):
    from bnn_atlas.runtime import configure
    from bnn_atlas.workflow.params import settings

    given = settings(snakemake.params)
    configure(snakemake.threads, "gpu" if snakemake.resources.gpu else "cpu", given["posterior"]["float64"])

    from bnn_atlas.steps.pruning import pruning

    files = snakemake.input
    pruning(
        files.dataset, files.split, list(files.frames), list(files.pools), **dict(snakemake.output.items()), **given
    )
