"""A referee in the workflow: what is made when a run gets one, from which draws it starts, and where its rows go."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bnn_atlas.metrics.tables.parquet import REFEREE_SCHEMA
from bnn_atlas.traces.pool import open_pool

from .workspace import STUDY, planned, small_workspace, snakemake

RUN = Path("results/demo/sampling_perspective/second/split0")
REFEREE = Path("results/demo/sampling_perspective/second-referee/split0")
FILE = str(RUN / "metrics/referee.parquet")


@pytest.mark.slow
def test_a_run_gets_a_referee(tmp_path: Path) -> None:
    folder = small_workspace(tmp_path)
    registry = folder / "config" / "datasets.yaml"
    text = registry.read_text(encoding="utf-8")
    text = text.replace("\ndiabetes:\n", "\ndiabetes:\n  dependent_rows: several of a family\n")
    registry.write_text(text, encoding="utf-8")
    run = snakemake(folder, "--", FILE)
    assert run.returncode != 0
    assert "runs.second: it has no referee; give it the section referee" in run.stdout
    made = snakemake(folder, "--", str(RUN / "metrics/metrics.parquet"))
    assert made.returncode == 0, made.stdout

    text = (folder / STUDY).read_text(encoding="utf-8")
    tiny = "{ kind: hmc, burn_in: 0, steps: 10, step_size: 1.0e-9, trajectory_length: 1.0e-9 }"
    (folder / STUDY).write_text(
        text.replace("    chains: 2\n", f"    chains: 2\n    referee: {tiny}\n"), encoding="utf-8"
    )
    expected = {"start": 1, "sample": 1, "pool": 1, "predict": 1, "score_referee": 1}
    assert planned(folder, "--", FILE) == expected, "the run itself is not made again"
    made = snakemake(folder, "--", FILE)
    assert made.returncode == 0, made.stdout

    source, pool = (open_pool(folder / run / "pool/pool.json") for run in (RUN, REFEREE))
    np.testing.assert_allclose(pool.read(draws=[0])[:, 0], source.read(draws=[source.draws - 1])[:, 0], atol=1e-6)
    rows = pd.read_parquet(folder / FILE).set_index("metric")
    assert set(rows["run"]) == {"second"}
    assert rows["note"].str.contains("rows are dependent (several of a family)", regex=False).all()
    chains = pd.read_parquet(folder / RUN / "metrics/referee_chains.parquet")
    assert list(chains.columns) == REFEREE_SCHEMA.names
    # This referee hardly moves: where it is not excluded for it, its level is that of the last draw.
    likelihood = source.statistic("log_likelihood").astype(float)
    assert len(chains) == 2
    kept = chains.dropna(subset="log_likelihood_after")
    assert len(kept) >= 1
    np.testing.assert_allclose(kept["log_likelihood_before"], likelihood[kept["chain"]].mean(axis=1), rtol=1e-6)
    np.testing.assert_allclose(kept["log_likelihood_after"], likelihood[kept["chain"], -1], rtol=1e-5)
    # Its rows are in the study's table, beside those of all other runs.
    all_jobs = planned(folder, "--forcerun", "score_referee", "--", "results/demo/tables/sampling_perspective.parquet")
    assert (all_jobs["score_referee"], all_jobs["table"]) == (1, 1)
