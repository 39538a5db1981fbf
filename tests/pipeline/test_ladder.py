"""Steps of checking claims as targets, in this repository and in a small study."""

from types import SimpleNamespace

import pytest

from bnn_atlas.config.claims.load import ClaimsConfig
from bnn_atlas.config.language.base import ConfigError
from bnn_atlas.config.settings import Atlas, load_atlas
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
    return load_atlas({"scale": "laptop"}, REPOSITORY / "config")


def needed(atlas: Atlas, name: str) -> set[str]:
    """Runs and figures of a step."""
    paths = Paths(f"results/{atlas.settings.scale}")
    files = step_inputs(atlas, Inputs(atlas, paths), Figures(atlas, paths, None), name)
    places = [file.removeprefix(f"{paths.results}/").removeprefix("figures/").split("/")[1] for file in files]
    return {place.partition(".")[0] for place in places}


def test_evaluate_needs_the_runs_of_the_package_and_one_formula(laptop: Atlas) -> None:
    seeds = {f"airfoil_{name}-seed{seed}" for name in ("mile", "mile_starts", "ensemble") for seed in range(1, 6)}
    assert needed(laptop, "evaluate") == {*seeds, "rescaling_curve"}
    paper = load_atlas({"scale": "paper"}, REPOSITORY / "config")
    assert needed(paper, "evaluate") == set(), "it is at scale laptop"


def test_the_longer_step_has_the_shorter_one(laptop: Atlas) -> None:
    assert needed(laptop, "evaluate") < needed(laptop, "evaluate_hour")
    assert not needed(laptop, "evaluate_hour") & {"airfoil_scale", "ionosphere_scale"}, "these take longer than an hour"


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
