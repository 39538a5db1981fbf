"""The HMC study: its runs beside the paper's settings, and its claims beside the paper's numbers."""

import math
from typing import Any

import pytest

from bnn_atlas.config.checks.runs import POSTERIOR
from bnn_atlas.config.claims.claim import cannot_fail
from bnn_atlas.config.claims.load import ClaimsConfig
from bnn_atlas.config.settings import Atlas, load_atlas
from bnn_atlas.published import published_numbers
from tests.config.test_repository import CONFIG

STUDY = "hmc_posteriors"
SAME = (
    "sgd", "ensemble", "sgld", "sghmc", "sghmc_clr", "sghmc_clr_prec", "mean_field", "mile", "adjusted", "hmc_other",
)  # fmt: skip
"""Runs on the reference's posterior."""
TABLE = {
    (one.label.removeprefix("deep_"), one.metric): (float(one.value), float(one.error or 0))
    for one in published_numbers(STUDY, "CIFAR-10, test")
    if one.label != "ceiling"
}
"""Section 9.1, CIFAR-10: method and metric -> accuracy, or agreement or total variation with HMC, with its error."""
HALF = "half of the published difference"


@pytest.fixture(scope="module")
def scales() -> dict[str, Atlas]:
    return {scale: load_atlas({"scale": scale, "studies": [STUDY]}, CONFIG) for scale in ("demo", "laptop", "paper")}


@pytest.fixture(scope="module")
def claims(scales: dict[str, Atlas]) -> ClaimsConfig:
    return scales["paper"].claims[STUDY]


def config_of(scales: dict[str, Atlas], name: str, scale: str = "paper") -> Any:
    return scales[scale].studies[STUDY].runs[name].config


def test_the_reference_has_the_papers_draws_chains_and_trajectories(scales: dict[str, Atlas]) -> None:
    reference = scales["laptop"].studies[STUDY].runs["mnist1000_hmc"]
    assert reference.reductions == (), "a laptop samples it as the paper would"
    config = reference.config
    assert (config.method.burn_in, config.method.steps, config.chains) == (50, 240, 3)
    assert config.prior_sd == pytest.approx(math.sqrt(1 / 5))
    assert config.method.trajectory_length == pytest.approx(math.pi / 2 * math.sqrt(1 / 5))
    assert not config.method.burn_in_metropolis
    assert (config.split.first, config.split.order, config.model.hidden) == (1000, "tfds", (50,))


@pytest.mark.parametrize("scale", ["laptop", "paper"])
def test_methods_are_compared_on_one_posterior_or_say_that_they_are_not(scales: dict[str, Atlas], scale: str) -> None:
    reference = config_of(scales, "mnist1000_hmc", scale)
    for name in SAME:
        config = config_of(scales, f"mnist1000_{name}", scale)
        assert all(getattr(config, field) == getattr(reference, field) for field in (*POSTERIOR, "split")), name
        assert config.evaluate.references == ("mnist1000_hmc",), name
    for name in ("sgd", "ensemble"):
        own, published = (config_of(scales, f"mnist1000_{name}{end}", scale) for end in ("", "_published"))
        assert published.prior_sd == pytest.approx(math.sqrt(1 / 10))
        assert published.model_copy(update={"prior": own.prior, "description": own.description}) == own


def test_claims_about_the_papers_sgd_and_ensembles_use_runs_with_their_published_prior(
    scales: dict[str, Atlas], claims: ClaimsConfig
) -> None:
    """Table 3 gives SGD and deep ensembles a weight decay of 10 on CIFAR-10; the follow-up has other settings."""
    named = {}
    for name, claim in claims.claims.items():
        if claim.read_in != "own" and claim.paper is None:
            runs = {run for side in claim.sides.values() for run in side.runs}
            named |= {(name, run): run for run in runs if run.startswith(("mnist1000_sgd", "mnist1000_ensemble"))}
    assert {"ensemble_nearer_than_mean_field", "sgld_nearer_than_sgd"} <= {name for name, _ in named}
    for where, run in named.items():
        assert config_of(scales, run).prior_sd == pytest.approx(math.sqrt(1 / 10)), where


def test_sweeps_vary_what_they_are_named_after(scales: dict[str, Atlas]) -> None:
    runs = scales["paper"].studies[STUDY].runs
    found = {
        entry: [run.config for run in runs.values() if run.entry == f"mnist1000_{entry}"]
        for entry in ("trajectory", "step_size", "temperature", "prior_variance", "prior_family")
    }
    quarter = math.pi / 2 * math.sqrt(1 / 5)
    lengths = [config.method.trajectory_length / quarter for config in found["trajectory"]]
    assert lengths == pytest.approx([0.25, 0.5, 1, 1.5])
    assert [config.temperature for config in found["temperature"]] == [0.03, 0.1, 0.3, 1, 3, 10]
    for config in (*found["temperature"], *found["prior_variance"]):
        sd = config.prior_sd * math.sqrt(config.temperature)
        assert config.method.trajectory_length == pytest.approx(math.pi / 2 * sd), (
            "a quarter period of the tempered prior"
        )
    assert [config.prior.kind for config in found["prior_family"]] == ["normal", "logistic", "mixture"]
    assert {config.start.run for config in found["step_size"]} == {"mnist1000_hmc"}


def test_biased_chains_start_from_the_posterior_whose_bias_they_show(scales: dict[str, Atlas]) -> None:
    runs = scales["laptop"].studies[STUDY].runs
    for run in runs.values():
        if run.entry in ("mnist1000_sgld_temperature", "mnist1000_temperature_augmented"):
            sampled = f"mnist1000_temperature-temperature{run.point['temperature']:g}" in runs
            assert run.config.start.run == ("mnist1000_temperature" if sampled else "mnist1000_hmc"), run.name
        if run.entry == "mnist1000_sgld_step_size":
            assert run.config.start.run == "mnist1000_hmc"


def test_imdb_is_also_scored_on_the_posteriors_that_the_published_predictions_may_be_of(
    scales: dict[str, Atlas],
) -> None:
    for decay in (40, 1):
        config = config_of(scales, f"imdb_map-weight_decay{decay}", "laptop")
        assert (config.split.first, config.evaluate.references) == (None, ("hmc_imdb",))
        assert config.prior_sd == pytest.approx(decay**-0.5)


def test_the_synthetic_regression_is_the_published_notebook(scales: dict[str, Atlas]) -> None:
    hmc = config_of(scales, "synthetic_hmc", "laptop")
    assert (hmc.method.burn_in, hmc.method.steps, hmc.method.jitter, hmc.chains) == (0, 100, 0, 1)
    assert math.ceil(hmc.method.trajectory_length / hmc.method.step_size) == 15708
    assert (hmc.prior_sd, hmc.likelihood.sigma, hmc.split.features, hmc.split.targets) == (
        0.1, 0.02, "squares", "as_given",
    )  # fmt: skip
    rates = {name: config_of(scales, f"synthetic_{name}").method for name in ("sgld", "sghmc", "sghmc_clr")}
    assert {name: method.step_size for name, method in rates.items()} == {
        "sgld": 3e-8, "sghmc": 1e-8, "sghmc_clr": 3e-8,
    }  # fmt: skip
    for method in rates.values():
        assert (method.epochs, method.ensemble_every, method.batch_size) == (100_000, 1000, None)
    starts = {name: config_of(scales, f"synthetic_{name}").initial for name in ("hmc", "sgd", *rates, "sghmc_clr_prec")}
    assert {name: start.scale for name, start in starts.items()} == {
        "hmc": 0.005, "sgd": 0.05, "sgld": 0.05, "sghmc": 0.05, "sghmc_clr": 0.05, "sghmc_clr_prec": 0.05,
    }  # fmt: skip
    mean_field = config_of(scales, "synthetic_mean_field")
    assert mean_field.initial is None
    assert mean_field.method.sigma_init == pytest.approx(math.log1p(math.exp(-3)), rel=1e-5)
    assert mean_field.start.run == "synthetic_sgd"


def test_all_of_mnist_has_the_steps_of_the_follow_up(scales: dict[str, Atlas]) -> None:
    for decay, step in ((3, 6.046e-5), (10, 3.312e-5), (30, 1.912e-5)):
        config = config_of(scales, f"mnist_hmc-weight_decay{decay}")
        assert config.method.step_size == pytest.approx(step, rel=2e-4)
        assert math.ceil(config.method.trajectory_length / config.method.step_size) == 15000


def test_no_run_is_compared_with_published_predictions_of_other_rows(scales: dict[str, Atlas]) -> None:
    for atlas in scales.values():
        for run in atlas.studies[STUDY].runs.values():
            for name in run.config.evaluate.references:
                known = atlas.datasets[name].training_rows if name in atlas.datasets else None
                assert known in (None, run.config.split.first), run.name


def test_claims_have_the_numbers_of_the_table(claims: ClaimsConfig) -> None:
    found = {}
    for claim in claims.claims.values():
        if claim.published and claim.place == "section 9.1, table" and claim.relation == "equals":
            number = claim.published
            found[claim.runs[0].removeprefix("cifar10_"), claim.metric] = (number.value, number.error)
            assert str(number.value) in claim.statement
    assert {key: pair for key, pair in found.items() if key[0] != "hmc"} == TABLE
    assert len(found) == len(TABLE) + 3


def test_sizes_are_half_of_published_differences(claims: ClaimsConfig) -> None:
    halves = {name: claim for name, claim in claims.claims.items() if (claim.basis or "").startswith(HALF)}
    assert len(halves) > 40
    for name, claim in halves.items():
        assert claim.published is not None, name
        assert claim.size == pytest.approx(abs(claim.published.value) / 2, rel=0.1), name
        if claim.relation in ("above", "below"):
            assert (claim.published.value > 0) == (claim.relation == "above"), name


def test_claims_can_fail_and_cover_the_paper(claims: ClaimsConfig) -> None:
    for name, claim in claims.claims.items():
        assert cannot_fail(claim) == "", name
    places = " ".join(claim.place or "" for claim in claims.claims.values())
    for section in ("4.1", "4.2", "4.3", "5.1", "5.2", "5.3", "6.1", "6.2", "7", "8.1", "8.2", "9.1", "9.2"):
        assert f"section {section}" in places, "every section from 4 to 9 has claims"


def test_findings_are_of_the_paper_or_of_this_project(claims: ClaimsConfig) -> None:
    own = [claims.claims[finding.claims[0]].read_in == "own" for finding in claims.findings]
    assert (own.count(False), own.count(True)) == (7, 4)


def test_sentences_that_only_a_summary_reports_say_so(claims: ClaimsConfig) -> None:
    """Of the text, only the abstract could be read; the rest of the claims are of tables, figures and files."""
    places = {claim.place for claim in claims.claims.values() if claim.read_in == "text" and claim.paper is None}
    assert places
    assert all(place and ("abstract" in place or place.endswith(", as reported by a summary")) for place in places)
