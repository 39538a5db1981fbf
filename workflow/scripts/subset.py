"""Take chosen parameters and draws out of a pool, as a tidy table."""

from bnn_atlas.logs import logged
from bnn_atlas.traces.pool import open_pool
from bnn_atlas.traces.subset import choose, subset_to_parquet

with logged(snakemake.log[0]):
    subset_to_parquet(choose(open_pool(snakemake.input.pool), **snakemake.params.subset), snakemake.output[0])
