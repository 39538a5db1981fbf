"""Compare a run's predictions with a reference."""

from bnn_atlas.logs import logged
from bnn_atlas.steps.score import score_against
from bnn_atlas.workflow.params import settings

with logged(snakemake.log[0]):
    files = snakemake.input
    score_against(
        files.dataset,
        files.split,
        files.test,
        files.reference,
        snakemake.output[0],
        shifted=list(files.shifted),
        judged=files.judged or None,
        **settings(snakemake.params),
    )
