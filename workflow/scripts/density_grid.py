"""Accumulate bivariate marginal densities of a pool."""

from bnn_atlas.logs import logged
from bnn_atlas.traces.grids import bivariate_grids
from bnn_atlas.traces.pairs import layer_pairs
from bnn_atlas.traces.pool import open_pool

with logged(snakemake.log[0]):
    pool = open_pool(snakemake.input.pool)
    settings = snakemake.params.grid
    pairs = settings["pairs"] or layer_pairs(pool.layout, per_layer=settings["per_layer"])
    limits = None if settings["limit"] is None else (-settings["limit"], settings["limit"])
    bivariate_grids(pool, pairs, limits=limits, bins=settings["bins"]).save(snakemake.output[0])
