"""Score the predictions for a shifted or an out-of-distribution set."""

from bnn_atlas.logs import logged
from bnn_atlas.steps.score import score_set
from bnn_atlas.workflow.params import settings

with logged(snakemake.log[0]):
    score_set(*snakemake.input, snakemake.output[0], **settings(snakemake.params))
