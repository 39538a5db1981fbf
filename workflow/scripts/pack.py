"""Pack a run into one archive."""

from bnn_atlas.logs import logged
from bnn_atlas.steps.export import export
from bnn_atlas.workflow.params import settings

with logged(snakemake.log[0]):
    files, given = snakemake.input, settings(snakemake.params)
    about = given.pop("about")
    export(
        files.dataset, files.split, files.pool, files.predictions, files.metrics, snakemake.output[0],
        settings=given, run=about,
    )  # fmt: skip
