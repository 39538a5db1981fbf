"""Align the draws of a run."""

from bnn_atlas.logs import logged

with logged(snakemake.log[0]):
    from bnn_atlas.runtime import configure
    from bnn_atlas.workflow.params import settings

    given = settings(snakemake.params)
    configure(snakemake.threads, "cpu", given["posterior"]["float64"])

    from bnn_atlas.steps.symmetry import align

    files = snakemake.input
    align(
        files.dataset,
        files.split,
        files.pool,
        snakemake.output.frame,
        snakemake.output.draws,
        reference=files.get("reference"),
        fits=[files.fits] if isinstance(files.get("fits"), str) else list(files.get("fits") or ()),
        **given,
    )
