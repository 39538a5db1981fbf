"""Evaluate a posterior on planes through draws."""

from bnn_atlas.logs import logged

with logged(snakemake.log[0]):
    from bnn_atlas.runtime import configure
    from bnn_atlas.workflow.params import settings

    given = settings(snakemake.params)
    others = dict(zip(given.pop("others"), snakemake.input.others, strict=True))
    configure(snakemake.threads, "gpu" if snakemake.resources.gpu else "cpu", given["posterior"]["float64"])

    from bnn_atlas.steps.evaluations import surface

    files = snakemake.input
    surface(files.dataset, files.split, files.pool, snakemake.output[0], others=others, **given)
