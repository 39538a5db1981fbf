"""Steps of checking claims as targets, in this repository and in a small study."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import norm

from bnn_atlas.config.claims.load import ClaimsConfig, claims_of
from bnn_atlas.config.language.base import ConfigError
from bnn_atlas.config.settings import Atlas, load_atlas, read_settings
from bnn_atlas.pipeline.figures import Figures
from bnn_atlas.pipeline.hooks import set_config
from bnn_atlas.pipeline.inputs import Inputs
from bnn_atlas.pipeline.paths import Paths
from bnn_atlas.pipeline.targets import step_inputs, steps, wanted_scale
from tests.config.folders import CLAIM, REPOSITORY


def config(scale: str) -> ClaimsConfig:
    step = {"takes": "a minute", "claims": ["error"], "scale": scale}
    return ClaimsConfig.model_validate({"paper": "p", "steps": {"evaluate": step}, "claims": {"error": CLAIM}})


@pytest.fixture(scope="module")
def laptop() -> Atlas:
    return load_atlas(read_settings(REPOSITORY / "config/config.yaml") | {"scale": "laptop"}, REPOSITORY / "config")


def needed(atlas: Atlas, name: str) -> set[str]:
    """Runs and figures of a step."""
    paths = Paths(f"results/{atlas.settings.scale}")
    files = step_inputs(atlas, Inputs(atlas, paths), Figures(atlas, paths, None), name)
    places = [file.removeprefix(f"{paths.results}/").removeprefix("figures/").split("/")[1] for file in files]
    return {place.partition(".")[0] for place in places}


def test_evaluate_needs_a_few_runs_of_every_study(laptop: Atlas) -> None:
    runs = needed(laptop, "evaluate")
    assert {run.split("-")[0] for run in runs} == {
        "airfoil_mile", "airfoil_mile_starts", "airfoil_ensemble", "rescaling_curve",
        "uci_hmc", "uci_sgd",
        "toy_implicit", "toy_implicit_published", "toy_implicit_warm", "toy_mean_field",
        "paths", "barrier_along_training", "transpositions_along_line", "loss_surface",
    }  # fmt: skip
    paper = load_atlas({"scale": "paper"}, REPOSITORY / "config")
    assert needed(paper, "evaluate") == set(), "it is at scale laptop"


def test_each_study_has_a_longer_step_that_has_the_shorter_one(laptop: Atlas) -> None:
    assert steps(laptop.claims).keys() == {"checks", "evaluate", *(f"evaluate_{study}" for study in laptop.studies)}
    for study, config in laptop.claims.items():
        assert set(claims_of(config, "evaluate")) < set(claims_of(config, f"evaluate_{study}"))
    longer = needed(laptop, "evaluate_sampling_perspective")
    assert not longer & {"airfoil_scale", "ionosphere_scale"}, "these take longer than an hour"


def test_checks_hold_at_any_scale_and_stand_in_every_study(laptop: Atlas) -> None:
    """None needs the paper's data, so `make demo` can end on them."""
    named = {study: claims_of(config, "checks") for study, config in laptop.claims.items()}
    assert all(named.values())
    assert sum(map(len, named.values())) >= 25
    for study, claims in named.items():
        assert {laptop.claims[study].claims[name].read_in for name in claims} == {"own"}


def test_values_in_closed_form_are_those_of_their_formulas(laptop: Atlas) -> None:
    """The prior density of a unit with bias 0.9 and weights 0.5 and 0.8 less that of the unit rescaled by c."""
    claims = laptop.claims["sampling_perspective"].claims
    unit = np.array([0.9, 0.5, 0.8])
    for c in (0.7, 0.8, 0.9):
        scaled = unit * [c, c, 1 / c]
        change = norm.pdf(unit).prod() - norm.pdf(scaled).prod()
        assert claims[f"rescaled_density_at_{c}"].value == pytest.approx(change, abs=5e-7)
    for name, variance in (("T_0.1", 0.02), ("T_1", 0.2), ("T_10", 2), ("SGLD", 0.2)):
        claim = laptop.claims["hmc_posteriors"].claims[f"dead_weights_at_{name}"]
        assert claim.value == pytest.approx(math.sqrt(variance), abs=5e-5)


def test_a_step_has_one_scale_and_chooses_it() -> None:
    claims = {"one": config("laptop"), "two": config("laptop")}
    assert steps(claims)["evaluate"].keys() == {"one", "two"}
    assert wanted_scale(claims, ["snakemake", "--cores", "2", "evaluate"]) == "laptop"
    assert wanted_scale(claims, ["snakemake", "claims"]) is None
    assert wanted_scale(claims, ["snakemake", "evaluate", "--config", "scale=demo"]) is None, "it is refused later"
    with pytest.raises(ConfigError, match=r"one.yaml: steps.evaluate: 'evaluate' is a target already"):
        steps(claims, ["evaluate"])
    with pytest.raises(ConfigError, match=r"steps.evaluate: it is at scale paper, and in config/claims/one.yaml at"):
        steps({"one": config("laptop"), "two": config("paper")})


def test_a_value_that_is_set_reaches_jobs_elsewhere() -> None:
    """They get the command line's values, which Snakemake keeps twice."""
    from snakemake.settings.types import ConfigSettings

    settings, values = ConfigSettings(config={"device": "gpu"}), {"scale": "demo", "device": "gpu"}
    set_config(SimpleNamespace(config_settings=settings), values, scale="laptop")
    assert values == {"scale": "laptop", "device": "gpu"}
    assert settings.overwrite_config == {"device": "gpu", "scale": "laptop"}
    assert [argument.replace("'", "") for argument in settings.config_args] == ["device=gpu", "scale=laptop"]
