"""Score the predictions of all shifted and out-of-distribution sets of a run."""

from bnn_atlas.logs import logged
from bnn_atlas.steps.score import score_sets
from bnn_atlas.workflow.params import settings

with logged(snakemake.log[0]):
    score_sets(*snakemake.input, snakemake.output[0], **settings(snakemake.params))
