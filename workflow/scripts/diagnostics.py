"""Draw the page on which a person sees whether to trust a run."""

from bnn_atlas.logs import logged
from bnn_atlas.steps.figures import page

with logged(snakemake.log[0]):
    page(snakemake.input, snakemake.output, settings=snakemake.params.settings)
