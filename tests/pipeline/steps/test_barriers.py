"""Pairs of chains compared, from files to tables: planted permutations, closed forms, refusals."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from scipy.special import log_softmax

from bnn_atlas.config.parts.evaluation import BarrierConfig
from bnn_atlas.config.parts.posterior import PosteriorConfig
from bnn_atlas.config.parts.starts import InitialConfig
from bnn_atlas.inference.problem import load_problem
from bnn_atlas.metrics.tables.parquet import LINE_SCHEMA, MATCH_SCHEMA, read_frame, read_table
from bnn_atlas.models.layout import Layout
from bnn_atlas.pipeline.steps.symmetry import barriers
from bnn_atlas.symmetry.barriers import PairError
from bnn_atlas.traces.pool import pool_traces
from bnn_atlas.warmstart.initial import initial_networks
from tests.traces.making import make_statistics, write_trace

from .making import IDENTITY, POSTERIOR, Run, make_run

HIDDEN, SEED = 8, 3
NETWORK: dict[str, Any] = PosteriorConfig.model_validate(
    {**POSTERIOR, "model": {"kind": "mlp", "hidden": [HIDDEN]}}
).model_dump(mode="json")
INITIAL = InitialConfig(transpositions=(5, 2), distribution="kaiming_uniform")


class Compared(NamedTuple):
    """The tables of a comparison."""

    rows: pd.DataFrame
    lines: pd.DataFrame
    matches: pd.DataFrame


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return make_run(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def layout(run: Run) -> Layout:
    return load_problem(run.dataset, run.split, NETWORK).posterior.layout


@pytest.fixture(scope="module")
def starts(run: Run) -> np.ndarray:
    """Two networks [4, P], each with a permuted copy."""
    problem = load_problem(run.dataset, run.split, NETWORK)
    model = PosteriorConfig.model_validate(NETWORK).model
    return initial_networks(problem.posterior, model, INITIAL, np.arange(4), SEED)


def pool(folder: Path, draws: np.ndarray, layout: Layout) -> Path:
    write_trace(folder / "trace.zarr", draws, make_statistics(*draws.shape[:2]), layout=layout)
    pool_traces([folder / "trace.zarr"], folder / "pool.json")
    return folder / "pool.json"


def compared(run: Run, folder: Path, networks: np.ndarray, layout: Layout, **settings: Any) -> Compared:
    config = BarrierConfig.model_validate({"points": 5, "draws": None, **settings})
    files = {name: folder / f"{name}.parquet" for name in ("table", "lines", "matches")}
    barriers(
        run.dataset, run.split, pool(folder, networks, layout), **files, posterior=NETWORK,
        settings=config.model_dump(mode="json"), initial=INITIAL.model_dump(mode="json"), seed=SEED,
        identity=IDENTITY, marks=["a mark"],
    )  # fmt: skip
    frames = [read_frame(files[n], s) for n, s in (("lines", LINE_SCHEMA), ("matches", MATCH_SCHEMA))]
    return Compared(read_table(files["table"]), *frames)


def value(found: Compared, metric: str, at: str = "") -> float:
    (one,) = found.rows.loc[(found.rows["metric"] == metric) & (found.rows["at"] == at), "value"]
    return float(one)


@pytest.mark.parametrize("criterion", ["weights", "activations", "correlation"])
def test_copies_have_no_barrier_once_aligned_and_their_planted_transpositions(
    run: Run, layout: Layout, starts: np.ndarray, tmp_path: Path, criterion: str
) -> None:
    found = compared(run, tmp_path, np.stack([starts, starts], axis=1), layout, criterion=criterion)
    trained = found.matches[(found.matches["state"] == "as_trained") & (found.matches["draw"] == 1)]
    assert trained["planted"].tolist() == [5, 2]
    assert trained["transpositions"].tolist() == [5, 2]
    others = found.matches[found.matches["state"] != "as_trained"]
    assert (others["transpositions"] == 0).all()
    assert others["squared_distance"].max() < 1e-10
    for state in ("aligned", "planted permutation undone"):
        for name in ("sup", "midpoint", "max"):
            assert value(found, f"barrier_loss_{name}", f"train, {state}") == pytest.approx(0, abs=1e-6)
            assert value(found, f"barrier_error_{name}", f"test, {state}") == 0
    assert value(found, "pair_transpositions_change_max") == 0
    assert set(found.rows["note"].str.contains("a mark")) == {True}


def test_repaired_lines_are_scored_beside_the_others(run: Run, layout: Layout, tmp_path: Path) -> None:
    draws = np.random.default_rng(0).normal(size=(2, 1, layout.size)).astype(np.float32)
    found = compared(run, tmp_path, draws, layout, draws=1, repair=True)
    scores = found.lines[found.lines["rows"] == "train"].pivot(index="point", columns="state", values="loss")
    assert set(scores.columns) == {"as_trained", "planted", "aligned", "as_trained_repaired", "aligned_repaired"}
    for state in ("as_trained", "aligned"):
        ends, inside = [0, 1], [0.25, 0.5, 0.75]
        np.testing.assert_allclose(scores.loc[ends, f"{state}_repaired"], scores.loc[ends, state], rtol=1e-4)
        assert (scores.loc[inside, f"{state}_repaired"] != scores.loc[inside, state]).all()
    value(found, "barrier_loss_midpoint", "train, aligned, repaired")
    assert not found.matches["state"].str.contains("repaired").any()


def test_losses_and_errors_on_a_line_are_those_of_double_precision(run: Run, layout: Layout, tmp_path: Path) -> None:
    draws = np.random.default_rng(0).normal(size=(2, 1, layout.size)).astype(np.float32)
    found = compared(run, tmp_path, draws, layout, training_rows=5, draws=1)
    rows = np.setdiff1d(np.arange(len(run.images.x)), run.rows)[:5]
    x = ((run.images.x[rows] - run.mean) / run.scale).reshape(5, -1)
    line = found.lines[(found.lines["state"] == "as_trained") & (found.lines["rows"] == "train")]
    assert line["point"].tolist() == [0, 0.25, 0.5, 0.75, 1]
    for point, loss, error in line[["point", "loss", "error"]].itertuples(index=False):
        theta = draws[0, 0].astype(float) * (1 - point) + draws[1, 0].astype(float) * point
        arrays = layout.unflatten(theta)
        hidden = np.maximum(x @ arrays["layer0.weight"].T + arrays["layer0.bias"], 0)
        log_probs = log_softmax(hidden @ arrays["layer1.weight"].T + arrays["layer1.bias"], axis=1)
        y = run.images.y[rows]
        assert loss == pytest.approx(-log_probs[np.arange(5), y].mean(), rel=1e-4)
        assert error == np.mean(log_probs.argmax(axis=1) != y)
    distance = found.matches.loc[found.matches["state"] == "as_trained", "squared_distance"]
    assert distance.tolist() == pytest.approx([float(((draws[0, 0] - draws[1, 0]).astype(float) ** 2).sum())])


def test_a_network_with_itself_and_points_of_a_surface(
    run: Run, layout: Layout, starts: np.ndarray, tmp_path: Path
) -> None:
    same = np.repeat(starts[:1, None], 2, axis=0)
    found = compared(run, tmp_path, same, layout, criterion="weights", surface=True, pairs="first")
    assert value(found, "pair_transpositions", "as trained") == 0
    assert value(found, "barrier_loss_sup", "train, as trained") == pytest.approx(0, abs=1e-6)
    assert sorted(set(found.matches["point"])) == [0.25, 0.5, 0.75, 1.0]
    assert (found.matches["transpositions"].where(found.matches["state"] != "planted", 0) == 0).all()


def test_networks_that_are_not_finite_and_other_networks_are_refused(
    run: Run, layout: Layout, starts: np.ndarray, tmp_path: Path
) -> None:
    broken = starts[:2, None].copy()
    broken[1, 0, 3] = np.nan
    with pytest.raises(PairError, match="chain 0 or 1 is not finite"):
        compared(run, tmp_path / "a", broken, layout)
    short = Layout(layout.parameters[:2])
    with pytest.raises(PairError, match="another network than the run's"):
        compared(run, tmp_path / "b", starts[:2, None, : short.size], short)
