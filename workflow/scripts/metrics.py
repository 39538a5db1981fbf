"""Score a pooled trace and its predictions of the test rows."""

from bnn_atlas.logs import logged
from bnn_atlas.steps.score import score
from bnn_atlas.workflow.params import settings

with logged(snakemake.log[0]):
    score(
        snakemake.input.dataset,
        snakemake.input.split,
        snakemake.input.pool,
        snakemake.input.predictions,
        snakemake.input.timings,
        dict(snakemake.output.items()),
        **settings(snakemake.params),
    )
