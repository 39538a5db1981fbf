"""Put the figures, claims and scores of a study into one small folder."""

from bnn_atlas.logs import logged
from bnn_atlas.steps.results import gallery

with logged(snakemake.log[0]):
    gallery(
        snakemake.output[0],
        figures=snakemake.input.figures,
        summary=snakemake.input.summary,
        runs=snakemake.input.runs,
        claims=snakemake.input.get("claims") or None,
        **dict(snakemake.params.items()),
    )
