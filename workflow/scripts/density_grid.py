"""Accumulate bivariate marginal densities of a pool."""

from bnn_atlas.logs import logged
from bnn_atlas.traces.grids import bivariate_grids
from bnn_atlas.traces.pairs import layer_pairs
from bnn_atlas.traces.pool import open_pool

with logged(snakemake.log[0]):
    pool = open_pool(snakemake.input.pool)
    pairs = layer_pairs(pool.layout, per_layer=snakemake.params.per_layer)
    limit = snakemake.params.limit
    limits = None if limit is None else (-limit, limit)
    bivariate_grids(pool, pairs, limits=limits, bins=snakemake.params.bins).save(snakemake.output[0])
