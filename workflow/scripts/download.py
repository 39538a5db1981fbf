"""Download one registered file."""

from bnn_atlas.logs import logged
from bnn_atlas.steps.data import download
from bnn_atlas.workflow.params import settings

with logged(snakemake.log[0]):
    download(
        snakemake.wildcards.file,
        snakemake.output[0],
        mirror=snakemake.config["mirror"],
        cache=snakemake.config["cache"],
        **settings(snakemake.params),
    )
