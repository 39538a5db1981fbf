"""config.metrics lists every name that a table can hold, and no other; docs/metrics.md is made from it."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from bnn_atlas.config.metrics import METRICS, page
from bnn_atlas.data.dataset import Dataset
from bnn_atlas.data.split_data import Split, SplitData
from bnn_atlas.metrics.gathering.cost import Cost, Phase
from bnn_atlas.metrics.gathering.exchange import Exchange
from bnn_atlas.metrics.gathering.log_densities import (
    LAST,
    MEANS,
    ceiling_measurements,
    optimum_measurements,
    point_noise_measurements,
    variational_measurements,
)
from bnn_atlas.metrics.gathering.streaming import summarise
from bnn_atlas.metrics.gathering.virial import Rescaling, Virial
from bnn_atlas.metrics.judgement import evaluate, referee, sets
from bnn_atlas.metrics.judgement.rows import as_rows, listed
from bnn_atlas.metrics.judgement.trust import source_measurement
from bnn_atlas.metrics.tables.measurement import Row, RunIdentity
from bnn_atlas.metrics.tables.parquet import PRUNING_SCHEMA
from bnn_atlas.models.layout import Layout, Parameter
from bnn_atlas.symmetry.aligned_draws import alignment_rows
from bnn_atlas.symmetry.barriers import pair_measurements
from bnn_atlas.symmetry.pruning import pruning_measurements
from tests.figures.aligned_files import aligned_draws
from tests.symmetry.test_barriers import tables

RUN = RunIdentity("study", "run", "demo", 0, "data", "mlp 16", "deep_ensemble")
COURSES = dict(zip(("elbo", "kl", "validation_loss"), np.random.default_rng(1).normal(size=(3, 4, 100)), strict=True))
COST = Cost((Phase("tuning", 300, 2.0), Phase("sampling", 400, 8.0)), 4, 2.0, ("cpu",), 1, COURSES)
LINEAR = Layout((
    Parameter("layer0.weight", (1, 1), "weight", 0, 1, 1), Parameter("layer1.weight", (1, 1), "weight", 1, 1, 1),
    Parameter("noise.log_sigma", (1,), "scale", None, 1, 1),
))  # fmt: skip
PAPERS = ("sommer", "uppal", "izmailov")


class Data(NamedTuple):
    y_test: np.ndarray
    y_scale: float = 3.0


def statistics(chains: int, draws: int) -> dict[str, np.ndarray]:
    """Everything that a sampler may report."""
    rng, shape = np.random.default_rng(1), (chains, draws)
    names = ("log_likelihood", "log_prior", "energy_change", "energy_change_squared", "step_size")
    counts = {name: rng.integers(0, 3, shape) for name in ("divergent", "guarded")}
    return {name: 1e-3 * rng.random(shape) for name in names} | counts


def small_split() -> SplitData:
    """Twelve rows of a table with two inputs."""
    x = np.random.default_rng(2).normal(size=(12, 2))
    dataset = Dataset(x, x @ [1.0, 2.0], ("a", "b"), "target", "regression", ())
    split = Split(np.arange(7), np.arange(7, 9), np.arange(9, 12))
    return SplitData(dataset, split, True, np.zeros(2), np.ones(2), 0.0, 1.0)


def scored_rows(memory_pool, predict_linear, predict_softmax) -> list[Row]:
    """Rows of a regression with a referee, a fit, a classification, a shifted set, an outside set, two comparisons."""
    rng = np.random.default_rng(0)
    x, theta = rng.normal(size=(25, 2)), 0.1 * rng.normal(size=(4, 60, 3))
    weights, labels = rng.normal(size=(4, 60, 6)), rng.integers(0, 3, size=25)
    rows: list[Row] = []
    for extra in ({}, dict.fromkeys(("acceptance", "cut_short"), np.full((4, 60), 0.8))):
        pool = memory_pool(theta, statistics(4, 60) | extra, layout=LINEAR)
        target = x @ [0.5, -1.0]
        summary = summarise(pool, predict_linear, x, target)
        run = RUN._replace(method="hmc") if extra else RUN
        virial = Virial(
            np.array(["layer0", "noise"]), np.array([2, 1]), 60, np.arange(4), *rng.normal(size=(2, 4, 60, 2))
        )
        exchange = Exchange(np.asarray(60), *rng.normal(size=(3, 4, 25)))
        virial = virial._replace(rises=np.ones(4))
        own = {
            "virial": virial,
            "fit_rows": 25,
            "exchange": exchange,
            "rescalings": [Rescaling("layer0", *np.split(np.arange(2), 2))],
        }
        facts = evaluate.RunFacts(run, COST, published=PAPERS, prior_sd=1.0, **own)
        found = evaluate.score(pool, summary, Data(target), facts)
        rows += found.rows + found.rates
    starts = ("elbo_of_start_0", "elbo_error_of_start_0", "log_likelihood_of_start_0", "start_kept")
    fitted = dict.fromkeys((*MEANS, "newton_decrement", "entropy_error", *LAST, *starts), np.full((4, 60), 0.5))
    pool = memory_pool(theta, statistics(4, 60) | fitted, layout=LINEAR)
    fits = [*variational_measurements(pool, np.arange(4), 10**6), *ceiling_measurements(pool, np.arange(4), 10**6)]
    fits += optimum_measurements(pool, np.arange(4), np.empty(0), 25, 10**6)
    rows += as_rows(RUN, fits, summary)
    noise = Layout(
        (Parameter("layer0.weight", (2,), "weight", 0, 2, 1), Parameter("log_sigma", (), "scale", None, 1, 1))
    )
    likelihood = {"log_likelihood": np.full((4, 60), -500.0)}
    pool = memory_pool(theta * [1, 1, 0], statistics(4, 60) | fitted | likelihood, layout=noise)
    rows += as_rows(RUN, point_noise_measurements(pool, np.arange(4), 25, 10**6), summary)
    rows += sets.reference_rows(RUN, "other_run", summary, summary)
    rows += sets.interval_rows(RUN, "interval-gap", summarise(pool, predict_linear, x, None))
    rows += as_rows(RUN, referee.judge(pool, pool, summary, summary).measurements, summary)
    dense = Layout((Parameter("layer0.weight", (3, 2), "weight", 0, 2, 3),))
    pool = memory_pool(weights, statistics(4, 60), layout=dense)
    summary = summarise(pool, predict_softmax, x, labels, classes=3)
    other = summarise(pool, predict_softmax, 3 * x, None, classes=3)
    dead = np.array([True, False])
    facts = evaluate.RunFacts(
        RUN, COST, published=PAPERS, dead_inputs=dead, prior_sd=1.0, second_moments=np.diag([0.0, 1])
    )
    found = evaluate.score(pool, summary, Data(labels), facts)
    rows += found.rows + found.rates
    rows += sets.shift_rows(RUN, "blur1", summary, labels, PAPERS)
    rows += sets.outside_rows(RUN, "ood-other", other, summary, PAPERS)
    rows += as_rows(RUN, evaluate.split_measurements(small_split()), summary)
    return rows + sets.reference_rows(RUN, "other_run", summary, summary)


def network_rows(rows: list[Row]) -> list[Row]:
    """Rows of pairs of networks, of pruned ones, and of draws with the moments of a run with these rows."""
    pruned = pd.DataFrame(
        [("HMC", "mean", "magnitude", 0, "kept", 20.0, 1, 0.5, 0.1, 1.0)], columns=PRUNING_SCHEMA.names
    )
    source = source_measurement(pd.DataFrame(rows, columns=Row._fields))
    return listed(RUN, [*pair_measurements(*tables()), *pruning_measurements(pruned), source], 2, 1)


def test_every_name_is_listed_and_every_listed_name_is_measured(
    memory_pool, predict_linear, predict_softmax, tmp_path: Path
):
    rows = scored_rows(memory_pool, predict_linear, predict_softmax)
    rows += alignment_rows(RUN, "weights", aligned_draws(tmp_path / "draws.npz"))
    rows += network_rows(rows)
    assert {row.metric for row in rows} == set(METRICS)
    with_parameter = {row.metric for row in rows if row.at}
    assert with_parameter == {name for name, metric in METRICS.items() if metric.at}
    assert all(row.at for row in rows if row.metric in with_parameter)


def test_names_are_given_once():
    lines = [line.split("`")[1] for line in page().splitlines() if line.startswith("| `")]
    assert lines == list(METRICS)


def test_the_page_is_that_of_the_list():
    written = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
    assert written == page(), "run `python -m bnn_atlas.config.metrics` after changing the list"
