"""Predict the rows of all further sets of a run with every draw of a pool."""

from bnn_atlas.logs import logged

with logged(snakemake.log[0]):
    from bnn_atlas.runtime import configure
    from bnn_atlas.workflow.params import settings

    given = settings(snakemake.params)
    posterior = given["posterior"]
    configure(snakemake.threads, "gpu" if snakemake.resources.gpu else "cpu", posterior["float64"])

    from bnn_atlas.steps.predict import predict_sets

    files = snakemake.input
    predict_sets(files.dataset, files.split, files.pool, snakemake.output[0], others=list(files.others), **given)
