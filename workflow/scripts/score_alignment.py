"""Measure the draws of an alignment."""

from bnn_atlas.logs import logged
from bnn_atlas.steps.symmetry import score_alignment
from bnn_atlas.workflow.params import settings

with logged(snakemake.log[0]):
    score_alignment(snakemake.input[0], snakemake.output[0], **settings(snakemake.params))
