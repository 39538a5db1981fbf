"""The runs of the sampling perspective beside the published files, as these were read for the specification."""

from typing import Any

import pytest

from bnn_atlas.config.settings import load_atlas
from tests.config.test_repository import CONFIG

Runs = dict[str, Any]
"""Name -> run; which settings a method has depends on the run."""
FULL = (50000, 10000, 10)
"""Tuning, steps and thinning of MILE in all files of the study."""
B = (0.01, 0.005, 200, 64, 10)
"""Warm start of most files: learning rate, weight decay, epochs, batch, patience."""
PACKAGE = (0.001, 0.0, 1200, None, 20)
DEEP = (16, 16, 16, 16)
# Run -> dataset, rng, hidden layers, chains, (tuning, steps, thinning, first step size), warm start.
MILE: dict[str, tuple[Any, ...]] = {
    "airfoil_scale": ("airfoil", 42, DEEP, 10000, (*FULL, 0.01), B),
    "bikesharing_scale": ("bikesharing_mile", 42, DEEP, 1000, (*FULL, 0.01), B),
    "ionosphere_scale": ("ionosphere_mile", 42, DEEP, 8000, (*FULL, 0.001), (0.001, 0.005, 200, 64, 10)),
    "airfoil_underfit": ("airfoil", 42, (3,), 8000, (*FULL, 0.002), (0.002, 0.005, 200, 64, 10)),
    "uci_mile-energy": ("energy", 1, (16, 16, 16), 10, (*FULL, 0.01), B),
    "priors-energy-hidden16x16-scale0.2": ("energy", 42, (16, 16), 10, (*FULL, 0.01), B),
    "priors_bikesharing-hidden16-scale10": ("bikesharing_mile", 42, (16,), 10, (*FULL, 0.01), B),
    "bias_penalised": ("airfoil", 42, (16, 16, 16), 12, (*FULL, 0.01), B),
    "bias_flat": ("airfoil", 42, (16, 16, 16), 12, (*FULL, 0.01), B),
    "concrete_width-hidden16": ("concrete", 42, (16,), 20, (*FULL, 0.01), B),
    "concrete_wide": ("concrete", 42, (64, 64), 20, (*FULL, 0.01), B),
    "bikesharing_stopped": ("bikesharing_mile", 1, DEEP, 16, (*FULL, 0.005), (0.005, 0.005, 400, 64, 10)),
    "airfoil_mile-seed1": ("airfoil", None, DEEP, 10, (50000, 1000, 10, 0.001), (0.001, 0.0, 1000, None, 20)),
    "bikesharing_package-seed1": ("bikesharing", None, DEEP, 10, (50000, 1000, 10, 0.001), PACKAGE),
}
# Run -> dataset, rng, rows kept, hidden layers, chains, draws.
NUTS: dict[str, tuple[Any, ...]] = {
    "regular_starts": ("bikesharing_mile", 42, None, (16, 16, 16), 12, 10000),
    "permuted_starts": ("bikesharing_mile", 42, None, (16, 16, 16), 12, 10000),
    "linear-hidden100-scale0.3162278": ("synthetic_regression_1x", 42, 200, (100,), 12, 1000),
    "flat_synthetic-hidden100": ("synthetic_regression_1x", 42, 200, (100,), 12, 1000),
    "flat_airfoil": ("airfoil", 42, None, (5,), 12, 1000),
    "flat_airfoil_wide": ("airfoil", 42, 200, (100,), 12, 1000),
    "jacobian": ("synthetic_regression_1x", 42, 200, (2,), 12, 10000),
    "width-hidden500": ("clusters_1d", None, None, (500,), 12, 1000),
}


@pytest.fixture(scope="module")
def runs() -> Runs:
    return (
        load_atlas({"scale": "paper", "studies": ["sampling_perspective"]}, CONFIG).studies["sampling_perspective"].runs
    )


def _start(run: Any) -> tuple[Any, ...]:
    start = run.config.warmstart
    assert start
    return start.learning_rate, start.weight_decay, start.max_epochs, start.batch_size, start.patience


@pytest.mark.parametrize("name", MILE)
def test_runs_of_mile(runs: Runs, name: str) -> None:
    config, method = runs[name].config, runs[name].config.method
    assert method.kind == "mclmc"
    sizes = (method.warmup, method.steps, method.thinning, method.step_size_init)
    found = (config.dataset, config.split.rng, config.model.hidden, config.chains, sizes, _start(runs[name]))
    assert found == MILE[name]


@pytest.mark.parametrize("name", NUTS)
def test_runs_of_nuts(runs: Runs, name: str) -> None:
    config = runs[name].config
    assert config.method.kind == "nuts"
    found = (config.dataset, config.split.rng, config.split.limit, config.model.hidden, config.chains)
    assert (*found, config.method.steps) == NUTS[name]
    assert _start(runs[name]) == B


def test_published_splits_are_scaled_as_published_and_others_honestly(runs: Runs) -> None:
    for name, run in runs.items():
        split, images = run.config.split, run.config.dataset == "fashion_mnist"
        published = split.kind == "mile" and not images
        assert (split.scaling == "all_rows") == published, name
        assert not split.validation_in_likelihood or split.kind == "train_test_split", name
        assert (split.validation_seed == 42) == (split.kind == "train_test_split"), name


def test_grids_and_seeds_are_complete(runs: Runs) -> None:
    entries = [run.entry for run in runs.values()]
    assert sum(entries.count(name) for name in ("priors", "priors_bikesharing")) == 84
    assert entries.count("airfoil_mile") == entries.count("bikesharing_package_ensemble") == 5
    for name in ("uci_mile", "uci_laplace", "uci_mean_field", "uci_mean_field_unscaled"):
        splits = {(run.config.split.rng, run.config.split.count) for run in runs.values() if run.entry == name}
        assert (entries.count(name), splits) == (4, {(1, 3)}), name


def test_baselines_have_the_rows_epochs_and_bound_of_their_scripts(runs: Runs) -> None:
    of_entry = {run.entry: run.config for run in runs.values()}
    for name, config in of_entry.items():
        assert (config.split.loader == "script") == name.startswith(("uci_laplace", "uci_mean_field")), name
    for name in ("uci_mean_field", "uci_mean_field_unscaled"):
        method = of_entry[name].method
        assert (method.epochs, method.batch_size, method.samples, method.steps) == (5000, 128, 10, 100)
        assert (method.optimiser.learning_rate, method.optimiser.schedule) == (0.01, "constant")
        assert method.unscaled == name.endswith("unscaled")
    start = of_entry["uci_laplace"].warmstart
    assert start
    assert (start.learning_rate, start.max_epochs, start.batch_size, start.patience) == (0.005, 10000, None, None)


def test_fashion_mnist_is_the_published_file(runs: Runs) -> None:
    config = runs["fmnist_scale"].config
    assert (config.model.label, config.model.activation, config.chains) == ("lenetti relu", "relu", 1000)
    assert (config.split.rng, config.split.scaling, config.split.first_test) == (42, "unit", 9984)
    assert _start(runs["fmnist_scale"]) == (0.001, 0.02, 2000, 64, 10)
    assert config.method.model_dump(exclude={"checkpoint_every"}) == {
        "kind": "adaptive_sghmc", "burn_in": 10000, "steps": 10000, "thinning": 10, "step_size": 0.001,
        "batch_size": 256, "friction": 0.05, "momentum_zeroing": 0.05, "rest_after_burn_in": True,
    }  # fmt: skip


def test_permuted_starts_are_copies_of_the_tenth_member(runs: Runs) -> None:
    for name in ("permuted_starts", "permuted_starts_mile"):
        start = runs[name].config.warmstart
        assert start
        assert start.permuted == 9
        regular = runs[name.replace("permuted", "regular")].config
        assert regular.warmstart == start.model_copy(update={"permuted": None})
        assert regular.method == runs[name].config.method


def test_linear_networks_alone_are_warmed_up_for_longer_than_published(runs: Runs) -> None:
    for name, run in runs.items():
        if run.entry in {name.partition("-")[0] for name in NUTS}:
            careful = (1000, 0.95) if run.entry == "linear" else (100, 0.8)
            assert (run.config.method.warmup, run.config.method.target_acceptance) == careful, name
