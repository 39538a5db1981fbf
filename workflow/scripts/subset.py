"""Take chosen parameters and draws out of a pool, as a tidy table."""

from bnn_atlas.logs import logged
from bnn_atlas.traces.pool import open_pool
from bnn_atlas.traces.subset import choose, subset_to_parquet

with logged(snakemake.log[0]):
    settings = dict(snakemake.params.subset)
    settings["chains"] = None if settings["chains"] is None else slice(settings["chains"])
    settings["draws"] = None if settings["draws"] is None else slice(*settings["draws"])
    subset_to_parquet(choose(open_pool(snakemake.input.pool), **settings), snakemake.output[0])
