"""Draw a figure."""

from bnn_atlas.figures.shown import figure_function, shown_runs
from bnn_atlas.figures.style import FigureOutputs
from bnn_atlas.logs import logged
from bnn_atlas.provenance import collect

with logged(snakemake.log[0]):
    files = {name: snakemake.input[name] for name in snakemake.params.inputs}
    draw = figure_function(snakemake.params.module, snakemake.rule)
    draw(
        shown_runs(snakemake.params.runs, files),
        FigureOutputs.of(snakemake.output),
        collect(snakemake.params.settings, root="."),
    )
