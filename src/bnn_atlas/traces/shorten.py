"""Shorten a finished trace to its first draws."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bnn_atlas.files import atomic
from bnn_atlas.traces.store import TraceWriter, open_trace


def shorten(source: Path, destination: Path, draws: int, attributes: Mapping[str, Any]) -> None:
    """Write the first `draws` draws of every chain of `source` as a separate trace, with further attributes.

    Draws and statistics keep their bits, and segments their length. One segment of one group of chains is in memory at
    a time. `source`, of which later segments may be missing, is not touched, and `destination` is whole or not there,
    so that it can be done again after any interruption. Raises TraceError as reading and writing a trace do.
    """
    trace = open_trace(source, incomplete=True)
    if destination.exists():
        shutil.rmtree(destination)
    with atomic(destination) as temporary:
        writer = TraceWriter.create(
            temporary,
            chains=trace.chains,
            draws=draws,
            layout=trace.layout,
            statistics={name: kind.name for name, kind in trace.statistics.items()},
            segment=trace.segment,
            chain_ids=trace.chain_ids,
            attributes={**trace.attributes, **attributes},
            dtype=trace.dtype.name,
        )
        group = writer.chains_per_chunk
        for segment in range(writer.segments):
            draw_idx = slice(segment * writer.segment, min((segment + 1) * writer.segment, draws))
            rows = (trace.read(slice(i, i + group), draw_idx) for i in range(0, trace.chains, group))
            writer.write_rows(segment, rows, {name: trace.statistic(name, None, draw_idx) for name in trace.statistics})
