"""The list of a study's runs."""

import math
from pathlib import Path
from typing import Any

import pandas as pd

from bnn_atlas.config.runs.expansion import run_rows
from bnn_atlas.config.settings import load_study
from bnn_atlas.metrics.judgement.pooled import write_runs
from tests.config.folders import DATASETS, run_edit, study_file


def test_runs_are_listed_with_grid_and_settings(tmp_path: Path) -> None:
    def edit(study: dict[str, Any]) -> None:
        run_edit(grid={"warmstart.max_epochs": [5, 7], "likelihood.sigma": [0.5]}, scales={"demo": {"chains": 2}})(
            study
        )
        study["runs"]["two"] = {**study["runs"]["one"], "grid": {}, "scales": {}, "warmstart": None, "chains": 3}
        study["runs"]["two"]["method"] = {"kind": "hmc", "step_size": 0.1, "trajectory_length": 1.0}

    rows = run_rows(load_study(study_file(tmp_path, edit), "demo", DATASETS))
    write_runs(rows, tmp_path / "runs.csv")
    found = pd.read_csv(tmp_path / "runs.csv").set_index("run")
    assert list(found.index) == ["one-max_epochs5-sigma0.5", "one-max_epochs7-sigma0.5", "two"]
    assert found["warmstart.max_epochs"].tolist()[:2] == [5, 7]
    assert math.isnan(found["warmstart.max_epochs"]["two"])
    assert found["chains"].tolist() == [2, 2, 3]
    assert found["method.kind"].tolist() == ["mclmc", "mclmc", "hmc"]
    assert found["method.step_size"].isna().tolist() == [True, True, False]
    assert found["split.test"].tolist() == [0.2] * 3
    assert found["split.validation_in_likelihood"].tolist() == [True] * 3
    assert found["reductions"].tolist()[:2] == ["chains: 4 -> 2"] * 2
    assert found["model"].tolist() == ["mlp 4x4 relu"] * 3
