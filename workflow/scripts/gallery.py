"""Put the figures, claims and scores of a study into one small folder."""

from bnn_atlas.files import atomic
from bnn_atlas.gallery.page import write_gallery
from bnn_atlas.logs import logged

with logged(snakemake.log[0]), atomic(snakemake.output[0]) as folder:
    write_gallery(
        folder,
        figures=snakemake.input.figures,
        captions=snakemake.input.captions,
        summary=snakemake.input.summary,
        runs=snakemake.input.runs,
        claims=snakemake.input.get("claims") or None,
        **dict(snakemake.params.items()),
    )
