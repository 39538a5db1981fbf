"""Judge the claims of all studies by their metric tables."""

from bnn_atlas.claims.report import report
from bnn_atlas.logs import logged

with logged(snakemake.log[0]):
    report(
        snakemake.params.studies,
        snakemake.input.tables,
        dict(zip(snakemake.params.figures, snakemake.input.figures, strict=True)),
        scale=snakemake.params.scale,
        **dict(snakemake.output.items()),
    )
