"""Score a pooled trace on the test rows."""

from bnn_atlas.logs import logged
from bnn_atlas.runtime import configure

configure(snakemake.threads, "gpu" if snakemake.resources.gpu else "cpu", snakemake.params.posterior["float64"])

from bnn_atlas.steps import ScoreOutputs, score

with logged(snakemake.log[0]):
    score(
        snakemake.input.dataset,
        snakemake.input.split,
        snakemake.input.pool,
        snakemake.input.timings,
        ScoreOutputs(**dict(snakemake.output.items())),
        **dict(snakemake.params.items()),
    )
