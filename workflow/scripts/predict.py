"""Predict the rows of a set with every draw of a pool."""

from bnn_atlas.logs import logged
from bnn_atlas.runtime import configure

configure(snakemake.threads, "gpu" if snakemake.resources.gpu else "cpu", snakemake.params.posterior["float64"])

from bnn_atlas.steps.predict import predict

with logged(snakemake.log[0]):
    predict(
        snakemake.input.dataset,
        snakemake.input.split,
        snakemake.input.pool,
        snakemake.output[0],
        other=snakemake.input.get("other") or None,
        **dict(snakemake.params.items()),
    )
