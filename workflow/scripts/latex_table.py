"""Write a table as LaTeX and CSV."""

from bnn_atlas.figures.latex import TableOutputs
from bnn_atlas.figures.shown import figure_function, shown_runs
from bnn_atlas.logs import logged
from bnn_atlas.provenance import collect

with logged(snakemake.log[0]):
    files = {name: snakemake.input[name] for name in snakemake.params.inputs}
    write = figure_function(snakemake.params.module, snakemake.rule)
    write(
        shown_runs(snakemake.params.runs, files),
        TableOutputs(snakemake.output.tex, snakemake.output.csv),
        collect(snakemake.params.settings, root="."),
    )
