"""Our side of mile_vs_bde.py: what the rules warmstart, sample, pool and metrics do, one after another in one process.

python mile_atlas.py JOB, in a folder that holds the prepared data.
"""

import json
import sys
from pathlib import Path
from typing import Any

from bnn_atlas.logs import logged
from bnn_atlas.runtime import configure


def main(job: dict[str, Any]) -> None:
    configure(job["cores"])
    from bnn_atlas.steps import ScoreOutputs, sample, score, warm_start
    from bnn_atlas.traces.pool import pool_traces

    data, posterior, seed = (job["dataset"], job["split"]), job["posterior"], job["seed"]
    folder = Path(job["split"]).parent
    start, trace, pool = folder / "warmstart.npz", folder / "trace.zarr", folder / "pool.json"
    warm_start(*data, start, posterior=posterior, training=job["warmstart"], members=range(job["chains"]), seed=seed)
    sample(*data, start, trace, posterior=posterior, method=job["method"], seed=seed, root=".")
    pool_traces([trace], pool)
    tables = [job["table"], *(str(folder / f"{name}.parquet") for name in ScoreOutputs._fields[1:])]
    files = ([folder / "timing.json"], ScoreOutputs(*tables))
    score(*data, pool, *files, posterior=posterior, identity=job["identity"], batch_rows=None)


if __name__ == "__main__":
    with logged("atlas.log"):
        main(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
