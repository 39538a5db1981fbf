"""Judge the claims of all studies by their metric tables."""

from bnn_atlas.logs import logged
from bnn_atlas.steps.results import claims

with logged(snakemake.log[0]):
    claims(
        snakemake.input.tables,
        snakemake.input.figures,
        **dict(snakemake.output.items()),
        scale=snakemake.params.scale,
        figures=snakemake.params.figures,
        studies=snakemake.params.studies,
        densities=snakemake.input.densities,
        compared=snakemake.params.compared,
    )
