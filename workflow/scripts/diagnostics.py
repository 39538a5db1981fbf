"""The page on which a person sees whether to trust a run."""

from bnn_atlas.figures.diagnostics import RunFiles, diagnostics_page
from bnn_atlas.figures.style import FigureOutputs
from bnn_atlas.logs import logged
from bnn_atlas.provenance import collect

with logged(snakemake.log[0]):
    diagnostics_page(
        RunFiles(*(snakemake.input[name] for name in RunFiles._fields)),
        FigureOutputs.of(snakemake.output),
        collect(snakemake.params.settings, root="."),
    )
