"""Our side of chains.py: samplers inside the runner, and a bare loop over gradients in the same placement."""

import logging

from bnn_atlas.runtime import configure
from machine import cores
from work import Loop, Work
from workers import serve

configure(cores())

from loops import bare, inside_runner
from problems import regression


def build(work: Work, method: str, arrangement: str) -> Loop:
    """`gradient` is the bare loop; `shards` in place of `chains` computes every chain on all devices at once."""
    problem = regression(work, shards=cores() if arrangement == "shards" else 1)
    return bare(problem, work) if method == "gradient" else inside_runner(problem, work, method, folder=None)


if __name__ == "__main__":
    logging.disable()
    serve(build, ("bnn-atlas", "jax"))
