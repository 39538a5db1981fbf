"""LPPD against the number of chains."""

from bnn_atlas.figures.sampling_perspective import cumulative_lppd
from bnn_atlas.figures.style import FigureOutputs
from bnn_atlas.logs import logged
from bnn_atlas.provenance import collect

with logged(snakemake.log[0]):
    cumulative_lppd(
        snakemake.input.tables,
        FigureOutputs.of(snakemake.output),
        collect(snakemake.params.settings, root="."),
        labels=snakemake.params.labels,
        classification=snakemake.params.classification,
    )
