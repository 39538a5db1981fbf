"""Draw a figure, or write a table."""

from bnn_atlas.logs import logged
from bnn_atlas.steps.figures import figure

with logged(snakemake.log[0]):
    figure(snakemake.output, figure=snakemake.params.figure)
