"""Predict the test rows with every draw of a pool."""

from bnn_atlas.logs import logged

with logged(snakemake.log[0]):
    from bnn_atlas.runtime import configure
    from bnn_atlas.workflow.params import settings

    given = settings(snakemake.params)
    posterior = given["posterior"]
    configure(snakemake.threads, "gpu" if snakemake.resources.gpu else "cpu", posterior["float64"])

    from bnn_atlas.steps.predict import predict

    predict(*snakemake.input, snakemake.output[0], **given)
