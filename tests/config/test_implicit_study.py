"""The study of implicit variational inference: what its entries say is the same, and the runs that only a GPU makes."""

from typing import Any

import numpy as np
import pytest

from bnn_atlas.config.claims.load import load_claims
from bnn_atlas.config.data.datasets import load_registry
from bnn_atlas.config.data.shift import PUBLISHED_CORRUPTIONS, SEVERITIES
from bnn_atlas.config.methods.implicit import ImplicitConfig
from bnn_atlas.config.runs.studies import Scale, Study
from bnn_atlas.config.settings import load_study
from bnn_atlas.methods.implicit.generators import build_generator
from bnn_atlas.models.networks import build_network
from tests.config.folders import REPOSITORY

CONFIG = REPOSITORY / "config"
DATASETS = load_registry(CONFIG / "datasets.yaml")


def load(scale: Scale) -> Study:
    return load_study(CONFIG / "studies" / "implicit_vi.yaml", scale, DATASETS)


@pytest.fixture(scope="module")
def paper() -> Study:
    return load("paper")


@pytest.fixture(scope="module")
def laptop() -> Study:
    return load("laptop")


def settings(study: Study, run: str) -> dict[str, Any]:
    return study.runs[run].config.method.model_dump()


def test_the_forms_of_the_entropy_on_the_toy_differ_in_the_entropy_alone(paper, laptop):
    for study in (paper, laptop):
        exact, lanczos = (settings(study, f"{entry}-sinusoids_1") for entry in ("toy_implicit", "toy_implicit_lanczos"))
        assert [key for key in exact if exact[key] != lanczos[key]] == ["entropy", "scored_by"]
        published, smallest = (
            settings(study, f"toy_implicit_{form}-sinusoids_1") for form in ("published", "smallest")
        )
        assert [key for key in published if published[key] != smallest[key]] == ["entropy"]


@pytest.mark.parametrize(
    ("run", "classes", "weights", "parameters"),
    [
        ("cifar10_implicit", 10, 2_745_264, 11_835_200),
        ("cifar100_implicit", 100, 36_518_832, 66_413_125),
    ],
)
def test_generators_of_wide_residual_networks_make_all_their_weights(paper, run, classes, weights, parameters):
    """Sizes only: nothing of these runs is computed."""
    config = paper.runs[run].config
    method = config.method
    assert isinstance(method, ImplicitConfig)
    layout = build_network(config.model, DATASETS[config.dataset].shape, classes).layout
    chosen = layout.select(roles=method.generated.roles)
    generator = build_generator(method.generator, layout, np.asarray(chosen))
    assert (generator.size, generator.parameters) == (weights, parameters)
    assert weights <= generator.capacity


def test_cifar_is_scored_on_all_published_corruptions_and_on_the_other_set(paper):
    for name in ("cifar10_implicit", "cifar10_map", "cifar10_ensemble", "cifar10_mean_field"):
        evaluate = paper.runs[name].config.evaluate
        assert {shift.published for shift in evaluate.shifts} == {*PUBLISHED_CORRUPTIONS}
        assert len(evaluate.shifts) == SEVERITIES * len(PUBLISHED_CORRUPTIONS)
        assert evaluate.out_of_distribution == ("cifar100",)


def test_kmnist_is_asked_for_at_the_scale_of_the_paper_only(paper, laptop):
    """No mirror has its file."""
    mnist = [name for name, run in paper.runs.items() if run.config.dataset == "mnist" and run.config.evaluate.shifts]
    assert len(mnist) >= 9
    assert all("kmnist" in paper.runs[name].config.evaluate.out_of_distribution for name in mnist)
    assert not any("kmnist" in run.config.evaluate.out_of_distribution for run in laptop.runs.values())
    assert not any(run.config.dataset.startswith("cifar") for run in laptop.runs.values())


def test_every_run_is_in_a_figure_or_a_claim(paper):
    claims = load_claims(CONFIG / "claims" / "implicit_vi.yaml", paper).claims.values()
    named = {name for claim in claims for side in claim.sides.values() for name in side.runs}
    named |= {name for figure in paper.figures.values() for name in figure.runs}
    starts = {run.config.start.run for run in paper.runs.values() if run.config.start}
    shown = {run.entry for run in paper.runs_of(tuple(named))} | starts
    assert {run.entry for run in paper.runs.values()} <= shown


def test_claims_of_shares_of_hmc_lean_on_the_hmc_of_their_data(paper):
    claims = load_claims(CONFIG / "claims" / "implicit_vi.yaml", paper).claims
    shares = {n: c for n, c in claims.items() if c.in_figure and "share" in str(c.in_figure.where.get("series"))}
    assert len(shares) == 9
    for name, claim in shares.items():
        seed = claim.in_figure.where["label"].rpartition("seed ")[2]
        assert claim.leans_on == (f"toy_hmc-sinusoids_{seed}",), name
