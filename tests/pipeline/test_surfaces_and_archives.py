"""A figure of planes and an archive of a run, from the study's file to their files."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from bnn_atlas import open_pool, open_reference
from bnn_atlas.metrics.tables.arrays import load_surfaces

from .workspace import STUDY, dry_run, planned, small_workspace, snakemake

RESULTS = Path("results/demo")
RUN = RESULTS / "sampling_perspective/images/split0"
ARCHIVE = RESULTS / "export/sampling_perspective/images-split0.zip"
PLANES = [
    {"title": "Chains", "points": [{"chain": chain} for chain in range(3)]},
    {"title": "An optimum", "points": [{"draw": "best"}, {"chain": 1}, {"run": "ensemble", "label": "optimum"}]},
]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with one figure of planes and one run to export, and both made."""
    folder = small_workspace(tmp_path_factory.mktemp("surfaces"))
    study = yaml.safe_load((folder / STUDY).read_text(encoding="utf-8"))
    study["runs"] = {name: study["runs"][name] for name in ("images", "ensemble")}
    study["figures"] = {
        "hills": {"draw": "posterior_surface", "runs": ["images"], "surface": {"planes": PLANES, "resolution": 12}}
    }
    study["export"] = ["images"]
    (folder / STUDY).write_text(yaml.safe_dump(study), encoding="utf-8")
    run = snakemake(folder, "hills", "export")
    assert run.returncode == 0, run.stdout
    return folder


@pytest.mark.slow
def test_the_figure_has_the_densities_that_the_sampler_stored(finished: Path) -> None:
    (file,) = (finished / RUN / "surface").glob("*.npz")
    found, pool = load_surfaces(file), open_pool(finished / RUN / "pool/pool.json")
    last = pool.draws - 1
    for name in ("log_likelihood", "log_prior"):
        stored = pool.statistic(name, draws=[last])[:, 0]
        np.testing.assert_allclose(getattr(found, f"point_{name}")[0], stored, rtol=1e-5)
    assert found.log_likelihood.shape == (2, 12, 12)
    assert found.labels[1].tolist()[2] == "optimum"
    table = pd.read_csv(finished / RESULTS / "figures/sampling_perspective/hills.csv")
    assert set(table["plane"]) == {"Chains", "An optimum"}


def test_the_archive_has_the_draws_of_the_run_and_its_settings(finished: Path) -> None:
    reference = open_reference(finished / ARCHIVE)
    pool = open_pool(finished / RUN / "pool/pool.json")
    np.testing.assert_array_equal(reference.draws.read(), pool.read())
    assert reference.about["settings"]["method"]["step_size"] == 0.02
    assert reference.posterior_settings["model"]["hidden"] == []
    assert len(reference.rows["train"]) + len(reference.rows["test"]) == 150
    assert reference.predictions["probabilities"].shape == (3, len(reference.rows["test"]), 10)
    assert "images" in reference.readme


def test_nothing_is_made_twice_and_any_run_can_be_packed(finished: Path) -> None:
    assert planned(finished, "hills", "export") == {}
    jobs = planned(finished, str(ARCHIVE).replace("images", "ensemble"))
    assert jobs["pack"] == 1
    assert set(jobs) <= {"predict", "metrics", "pack"}
    wrong = dry_run(finished, str(ARCHIVE).replace("images", "image"))
    assert "no run 'image'" in wrong.stdout
    assert "did you mean 'images'?" in wrong.stdout
