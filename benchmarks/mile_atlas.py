"""Our side of mile_vs_bde.py: what the rules from warmstart to metrics do, one after another in one process.

python mile_atlas.py JOB, in a folder that holds the prepared data.
"""

import json
import sys
from pathlib import Path
from typing import Any

from bnn_atlas.logs import logged
from bnn_atlas.runtime import configure

TABLES = ("rates", "parameters", "functions", "chains", "samplers", "curves")
"""What the rule `metrics` writes beside the table of scores."""


def main(job: dict[str, Any]) -> None:
    configure(job["cores"])
    from bnn_atlas.pipeline.steps.predict import predict
    from bnn_atlas.pipeline.steps.sample import sample
    from bnn_atlas.pipeline.steps.score import score
    from bnn_atlas.pipeline.steps.starts import warm_start
    from bnn_atlas.traces.pool import pool_traces

    data, posterior, seed = (job["dataset"], job["split"]), job["posterior"], job["seed"]
    folder = Path(job["split"]).parent
    start, trace, pool, test = (folder / name for name in ("warmstart.npz", "trace.zarr", "pool.json", "test.npz"))
    warm_start(*data, start, posterior=posterior, training=job["warmstart"], members=range(job["chains"]), seed=seed)
    sample(*data, start, trace, posterior=posterior, method=job["method"], seed=seed)
    pool_traces([trace], pool)
    predictions = (test, folder / "virial.npz", folder / "exchange.npz")
    predict(*data, pool, *predictions, posterior=posterior)
    outputs = {name: str(folder / f"{name}.parquet") for name in TABLES} | {"table": job["table"]}
    files = (*predictions, [folder / "timing.json"])
    about = {"model": posterior["model"], "identity": job["identity"], "batch_rows": None, "published": ()}
    score(*data, pool, *files, **outputs, **about)


if __name__ == "__main__":
    with logged("atlas.log"):
        main(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
