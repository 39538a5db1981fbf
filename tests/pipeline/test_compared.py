"""Which predictions the claims rule reads to pair differences by row."""

from bnn_atlas.config.settings import load_atlas
from bnn_atlas.pipeline.claims import claimed_studies, compared_predictions
from bnn_atlas.pipeline.paths import Paths
from tests.config.folders import REPOSITORY


def test_runs_that_claims_compare_by_their_densities_and_no_others() -> None:
    atlas = load_atlas({"scale": "laptop"}, REPOSITORY / "config")
    found = compared_predictions(atlas, Paths("results/laptop"), ["sampling_perspective"])
    assert found["sampling_perspective/airfoil_hmc/split0"] == (
        "results/laptop/sampling_perspective/airfoil_hmc/split0/predictive/test.npz"
    )
    runs = {key.split("/")[1] for key in found}
    assert {"airfoil_mile-seed1", "permuted_starts", "regular_starts", "airfoil_scale"} <= runs
    assert not runs & {"airfoil_ensemble-seed1", "bias_flat", "concrete_wide"}, "other metrics are not paired by row"


def test_scale_runs_know_their_warm_starts() -> None:
    atlas = load_atlas({"scale": "laptop"}, REPOSITORY / "config")
    (study,) = claimed_studies(atlas, ["sampling_perspective"])
    starts = {name: plan["starts"] for name, plan in study["runs"].items()}
    for run in ("airfoil_scale", "bikesharing_scale", "ionosphere_scale", "fmnist_scale"):
        assert starts[run] == f"{run}_ensemble"
    assert starts["airfoil_scale_ensemble"] is None
