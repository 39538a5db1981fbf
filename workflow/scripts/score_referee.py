"""Compare a run with its referee."""

from bnn_atlas.logs import logged
from bnn_atlas.steps.score import score_referee
from bnn_atlas.workflow.params import settings

with logged(snakemake.log[0]):
    score_referee(*snakemake.input, **snakemake.output, **settings(snakemake.params))
