"""Draw a block of chains."""

from bnn_atlas.logs import logged
from bnn_atlas.runner.signals import stop_signal

# Imports take seconds: the log and the handler of signals are there before them.
with logged(snakemake.log[0]), stop_signal():
    from bnn_atlas.runtime import configure
    from bnn_atlas.workflow.params import settings

    given = settings(snakemake.params)
    posterior = given["posterior"]
    device = "gpu" if snakemake.resources.gpu else "cpu"
    configure(snakemake.threads, device, posterior["float64"], posterior["data_shards"])

    from bnn_atlas.steps.sample import sample

    sample(
        snakemake.input.dataset, snakemake.input.split, snakemake.input.start, snakemake.output.trace, root=".", **given
    )
