"""Compare a run's predictions with a reference."""

from bnn_atlas.logs import logged
from bnn_atlas.steps.score import score_against
from bnn_atlas.workflow.params import settings

with logged(snakemake.log[0]):
    score_against(*snakemake.input, snakemake.output[0], **settings(snakemake.params))
