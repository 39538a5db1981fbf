from pathlib import Path

import pytest

from bnn_atlas.figures.sampling_perspective.layer_marginals import layer_marginals
from tests.figures.set_files import written

VALUES = {
    f"{metric}@layer{layer}.{role}": value + layer
    for layer in range(3)
    for metric, value in (("prior_distance", 0.1), ("marginal_sd", 2.0))
    for role in ("weight", "bias")
}


def test_layers_stand_from_the_first_to_the_last(tmp_path: Path) -> None:
    common = {"dataset": "airfoil", "task": "regression", "method": "mclmc", "prior_sd": 2.0}
    deep = written(tmp_path, "deep", {**VALUES, "prior_distance@log_sigma": 0.9}, **common)
    small = {place: value for place, value in VALUES.items() if "layer2" not in place}
    table = layer_marginals([deep, written(tmp_path, "small", small, **common)]).numbers
    weights = table[table["role"] == "weight"].set_index(["label", "layer"])
    assert weights.loc["deep", "place"].tolist() == [0, 0.5, 1]
    assert weights.loc["small", "place"].tolist() == [0, 1]
    assert weights.loc["deep", "marginal_sd"].tolist() == [1, 1.5, 2]
    assert weights.loc["small", "prior_distance"].tolist() == [0.1, 1.1]


def test_a_run_without_these_metrics_is_refused(tmp_path: Path) -> None:
    one = written(tmp_path, "bare", {"rmse": 0.1}, dataset="airfoil", task="regression", method="mclmc")
    with pytest.raises(ValueError, match="no prior_distance and no marginal_sd of run bare, by layer"):
        layer_marginals([one])
