"""Our side of mile_vs_bde.py: what the rules from warmstart to metrics do, one after another in one process.

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
    from bnn_atlas.steps.predict import predict
    from bnn_atlas.steps.sample import sample
    from bnn_atlas.steps.score import ScoreOutputs, score
    from bnn_atlas.steps.warmstart import warm_start
    from bnn_atlas.traces.pool import pool_traces

    data, posterior, seed = (job["dataset"], job["split"]), job["posterior"], job["seed"]
    folder = Path(job["split"]).parent
    start, trace, pool, test = (folder / name for name in ("warmstart.npz", "trace.zarr", "pool.json", "test.npz"))
    warm_start(*data, start, posterior=posterior, training=job["warmstart"], members=range(job["chains"]), seed=seed)
    sample(*data, start, trace, posterior=posterior, method=job["method"], seed=seed, root=".")
    pool_traces([trace], pool)
    predict(*data, pool, test, posterior=posterior)
    tables = [job["table"], *(str(folder / f"{name}.parquet") for name in ScoreOutputs._fields[1:])]
    files = (test, [folder / "timing.json"], ScoreOutputs(*tables))
    score(*data, pool, *files, identity=job["identity"], batch_rows=None)


if __name__ == "__main__":
    with logged("atlas.log"):
        main(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
