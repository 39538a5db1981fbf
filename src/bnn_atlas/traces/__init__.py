"""Traces on disk: written segment by segment, pooled without copying, reduced to subsets, and counted into densities.

The names used most are exported here; `subset` and `grids` are imported as modules.
"""

from bnn_atlas.traces.draws import Draws
from bnn_atlas.traces.pool import Pool, open_pool, pool_traces
from bnn_atlas.traces.store import Trace, TraceError, TraceWriter, open_trace

__all__ = ["Draws", "Pool", "Trace", "TraceError", "TraceWriter", "open_pool", "open_trace", "pool_traces"]
