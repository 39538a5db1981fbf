"""Do the work of a job of any rule: its function is in `bnn_atlas.pipeline.steps`."""

from contextlib import nullcontext

from bnn_atlas.logs import logged
from bnn_atlas.runner.signals import stop_signal

# Imports take seconds: the log, and for a sampler the handler of signals, are there before them.
with logged(snakemake.log[0]), stop_signal() if snakemake.rule == "sample" else nullcontext():
    from bnn_atlas.pipeline.steps import run

    run(snakemake)
