"""Predictions of a linear classifier for every kind of set, against NumPy."""

from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from scipy.special import softmax

from bnn_atlas.config.data.shift import parse_shift
from bnn_atlas.data import DataError, evaluation_sets
from bnn_atlas.data.corruptions import apply_shift
from bnn_atlas.data.dataset import Dataset, load, save
from bnn_atlas.data.split_data import Split, SplitData
from bnn_atlas.data.splitting import save_split
from bnn_atlas.inference import problem as module
from bnn_atlas.inference.problem import Predictor, Problem, load_problem
from bnn_atlas.metrics.formulas import averages
from bnn_atlas.metrics.gathering import summary as summaries
from bnn_atlas.metrics.gathering.exchange import load_exchange
from bnn_atlas.metrics.gathering.summary import PredictiveSummary, with_targets
from bnn_atlas.metrics.gathering.virial import load_virial
from bnn_atlas.metrics.judgement.measure import stacked_on_validation
from bnn_atlas.metrics.judgement.sets import reference_rows, shift_rows
from bnn_atlas.metrics.tables.measurement import RunIdentity
from bnn_atlas.pipeline.steps import predict as steps
from bnn_atlas.pipeline.steps.predict import predict, predict_sets
from bnn_atlas.placement import Placement

from .making import IDENTITY, LAYOUT, POSTERIOR, SHAPE, TEST, TRAIN, Run, cifar10c_tar, make_images, make_run

pytestmark = pytest.mark.bits

CLOSE: dict[str, float] = {"rtol": 0, "atol": 2e-6}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return make_run(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def problem(run: Run) -> Problem:
    return load_problem(run.dataset, run.split, POSTERIOR)


def predicted(run: Run, folder: Path) -> PredictiveSummary:
    """Of the test rows."""
    files = [folder / f"{name}.npz" for name in ("test", "virial", "exchange")]
    predict(run.dataset, run.split, run.pool, *files, posterior=POSTERIOR)
    return summaries.load(folder / "test.npz")


def predicted_sets(run: Run, folder: Path, *sets: str, **settings: Any) -> list[PredictiveSummary]:
    """Of further sets; `others` are the files of those that are elsewhere."""
    predict_sets(run.dataset, run.split, run.pool, folder / "sets", posterior=POSTERIOR, sets=sets, **settings)
    return [summaries.load(folder / "sets" / f"{name}.npz") for name in sets]


def test_the_biases_come_before_the_weights() -> None:
    """What `Run.probabilities` takes for granted."""
    assert [(p.name, p.shape) for p in LAYOUT.parameters] == [("layer0.bias", (3,)), ("layer0.weight", (3, 48))]


def test_test_rows(run: Run, tmp_path: Path) -> None:
    summary = predicted(run, tmp_path)
    expected, labels = run.probabilities(run.images.x[run.rows]), run.images.y[run.rows]
    np.testing.assert_allclose(summary.probabilities, expected, **CLOSE)
    of_labels = np.log(expected[:, np.arange(TEST), labels])
    assert summary.log_density_by_chain is not None
    np.testing.assert_allclose(summary.log_density_by_chain, of_labels, rtol=0, atol=2e-5)
    assert summary.draws == run.draws.shape[1]


def test_gradients_at_the_draws_are_those_of_the_training_rows(run: Run, tmp_path: Path) -> None:
    """For a softmax of W x + b: sum_i (onehot(y_i) - p_i) (x_i, 1), at every draw of every chain."""
    predicted(run, tmp_path)
    virial = load_virial(tmp_path / "virial.npz")
    others = np.setdiff1d(np.arange(TRAIN + TEST), run.rows)
    x = ((run.images.x[others] - run.mean) / run.scale).reshape(len(others), -1)
    biases, weights = np.split(run.draws, [3], axis=-1)
    logits = np.einsum("csji,ni->csnj", weights.reshape(*run.draws.shape[:2], 3, -1), x) + biases[:, :, None]
    slopes = np.eye(3)[run.images.y[others]] - softmax(logits, axis=-1)
    expected = -(slopes * logits).sum(axis=(2, 3))
    np.testing.assert_allclose(virial.likelihood[..., 0], expected, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(virial.prior[..., 0], (run.draws**2).sum(axis=2), rtol=1e-5)
    assert not load_exchange(tmp_path / "exchange.npz").as_drawn.size, "a linear model has one layer"
    files = [tmp_path / f"{name}.npz" for name in "abc"]
    predict(run.dataset, run.split, run.pool, *files, posterior=POSTERIOR, last=True)
    assert not load_virial(tmp_path / "b.npz").likelihood.size, "a single network has no temperature"


def test_weights_of_chains_are_fitted_to_validation_rows_that_the_posterior_has_not_seen(tmp_path: Path) -> None:
    """One chain is right about every row; with validation rows in the likelihood there are no such weights."""
    run = make_run(tmp_path)
    validation, train = np.arange(5), np.arange(5, TRAIN)
    for held, chains in ((False, 3), (True, 0)):
        save_split(run.split, run.images, Split(train, validation, run.rows), held)
        summary = predicted(run, tmp_path)
        density = load_exchange(tmp_path / "exchange.npz").validation
        assert len(density) == chains
        found = {one.metric: one for one in stacked_on_validation(summary, density)}
        if held:
            assert not found
            continue
        pixels = run.images.x[train].astype(np.float64)
        scaled = run._replace(mean=pixels.mean(axis=(0, 1, 2)), scale=pixels.std(axis=(0, 1, 2)))
        expected = np.log(scaled.probabilities(run.images.x[validation])[:, np.arange(5), run.images.y[validation]])
        np.testing.assert_allclose(density, expected, rtol=0, atol=2e-5)
        right = np.where(np.arange(3)[:, None] == 1, 0.0, -50.0) * np.ones((3, 5))
        alone, number = stacked_on_validation(summary, right)
        assert "5 validation rows, by at most 20 draws of each chain" in alone.note
        of_test = with_targets(summary.log_density_by_chain)[1]
        assert alone.value == pytest.approx(of_test.mean(), abs=1e-3)
        assert alone.standard_error == pytest.approx(of_test.std(ddof=1) / np.sqrt(TEST), rel=1e-2)
        assert number.value == pytest.approx(1, abs=1e-2)
        assert found["stacked_chains_validation"].value == pytest.approx(
            averages.effective_number(averages.stacking_weights(density))
        )
        assert stacked_on_validation(summary, right[:, :3]) == [], "three rows are too few"
        assert stacked_on_validation(summary, np.where(right == 0, np.nan, right)) == []


def test_test_rows_in_an_order_of_their_own(tmp_path: Path) -> None:
    run = make_run(tmp_path, TRAIN + np.array([4, 0, 5]))
    summary = predicted(run, tmp_path)
    np.testing.assert_allclose(summary.probabilities, run.probabilities(run.images.x[run.rows]), **CLOSE)


def test_shifted_rows(run: Run, tmp_path: Path) -> None:
    clean = run.images.x[run.rows]
    names = ("rotated30", "gaussian_noise3")
    for name, summary in zip(names, predicted_sets(run, tmp_path, *names), strict=True):
        expected = run.probabilities(apply_shift(parse_shift(name), clean, evaluation_sets.SEED))
        assert np.abs(expected - run.probabilities(clean)).max() > 0.05
        np.testing.assert_allclose(summary.probabilities, expected, **CLOSE)
        assert summary.log_density_by_chain is not None, "shifted rows keep their labels"


def outside(run: Run, folder: Path, other: Dataset, **settings: Any) -> PredictiveSummary:
    save(folder / "other.npz", other)
    files = {"elsewhere": ["ood-other"], "others": [folder / "other.npz"]}
    (summary,) = predicted_sets(run, folder, "ood-other", **files, **settings)
    return summary


def test_outside_rows_are_scaled_with_the_statistics_of_the_run(run: Run, tmp_path: Path) -> None:
    dark = make_images(5, 0, 40)
    summary, rows = outside(run, tmp_path, dark), dark.x[TRAIN:]
    expected = run.probabilities(rows)
    own = run._replace(mean=rows.mean(axis=(0, 1, 2)), scale=rows.std(axis=(0, 1, 2))).probabilities(rows)
    assert np.abs(expected - own).max() > 0.05
    np.testing.assert_allclose(summary.probabilities, expected, **CLOSE)
    assert summary.log_density_by_chain is None, "there is no right answer"


def test_outside_rows_are_limited(run: Run, tmp_path: Path) -> None:
    other = make_images(5)
    summary = outside(run, tmp_path, other, limit=2)
    np.testing.assert_allclose(summary.probabilities, run.probabilities(other.x[TRAIN : TRAIN + 2]), **CLOSE)


def test_an_outside_set_without_test_rows_has_all_its_rows_predicted(run: Run, tmp_path: Path) -> None:
    other = make_images(5, published_train=TRAIN + TEST)
    summary = outside(run, tmp_path, other)
    np.testing.assert_allclose(summary.probabilities, run.probabilities(other.x), **CLOSE)


def test_rows_are_predicted_again_only_for_something_else(run: Run, tmp_path: Path) -> None:
    predicted(run, tmp_path)
    first = (tmp_path / "test.npz").stat().st_ino
    predicted(run, tmp_path)
    assert (tmp_path / "test.npz").stat().st_ino == first
    other = make_run(tmp_path, TRAIN + np.array([4, 0, 5]))
    files = [tmp_path / f"{name}.npz" for name in ("test", "virial", "exchange")]
    predict(other.dataset, other.split, run.pool, *files, posterior=POSTERIOR)
    assert (tmp_path / "test.npz").stat().st_ino != first


def test_an_interrupted_job_goes_on_with_the_sets_that_are_missing(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it finds stays as it is, and a set that is no longer asked for goes."""
    names, made, usual = ["rotated15", "rotated30", "blur1"], [], steps.summarise

    def interrupted(*arguments: Any, **named: Any) -> PredictiveSummary:
        if len(made) == 1:
            raise KeyboardInterrupt
        made.append(arguments)
        return usual(*arguments, **named)

    monkeypatch.setattr(steps, "summarise", interrupted)
    with pytest.raises(KeyboardInterrupt):
        predicted_sets(run, tmp_path, *names)
    (first,) = (tmp_path / "sets").glob("*.npz")
    assert first.name == "rotated15.npz", "nothing is half written"
    before = first.stat().st_ino
    monkeypatch.setattr(steps, "summarise", usual)
    predicted_sets(run, tmp_path, *names)
    assert first.stat().st_ino == before
    predicted_sets(run, tmp_path, *names[:2])
    assert {path.stem for path in (tmp_path / "sets").glob("*.npz")} == {*names[:2]}


def test_what_is_kept_of_a_set_gives_the_scores_of_the_whole(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several chains keep four batches of their eight draws, and scores differ by the rounding of these only."""
    labels = run.images.y[run.rows]
    reference = np.random.default_rng(0).dirichlet(np.ones(3), TEST)
    (brief,) = predicted_sets(run, tmp_path, "rotated30")
    monkeypatch.setattr(steps, "_of_set", steps._summary)
    (whole,) = predicted_sets(run, tmp_path / "whole", "rotated30")
    assert brief.log_density_by_draw is None
    assert whole.log_density_by_draw is not None
    identity = RunIdentity(**IDENTITY)
    for rows_of in (
        lambda summary: shift_rows(identity, "rotated30", summary, labels),
        lambda summary: reference_rows(identity, "r", summary, reference),
    ):
        found, all_rows = (
            {(*row[:10], row.at): (row.value, row.standard_error, row.monte_carlo_error) for row in rows_of(summary)}
            for summary in (brief, whole)
        )
        left_out = {key for key in all_rows if key not in found}
        assert {(key[9], key[8]) for key in left_out} <= {
            ("accuracy_cumulative_draws", draws) for draws in (1, 3, 5, 7)
        }
        for key, values in found.items():
            assert values == pytest.approx(all_rows[key], abs=1e-6), key
    stops = [row.draws for row in shift_rows(identity, "rotated30", brief, labels) if "cumulative_draws" in row.metric]
    assert stops == [2, 4, 6, 8]


@pytest.mark.parametrize("places", [[0, 1, 2, 3, 4, 5], [4, 0, 5]])
def test_published_corruptions(tmp_path: Path, places: list[int]) -> None:
    run = make_run(tmp_path, TRAIN + np.array(places))
    images = cifar10c_tar(tmp_path / "c.tar", run.images.y[TRAIN:])
    files = {"elsewhere": ["cifar10c_fog2"], "others": [tmp_path / "c.tar"]}
    (summary,) = predicted_sets(run, tmp_path, "cifar10c_fog2", **files)
    np.testing.assert_allclose(summary.probabilities, run.probabilities(images[1, places]), **CLOSE)
    assert summary.log_density_by_chain is not None


def _predictor(problem: Problem, budget: float) -> Predictor:
    return Predictor(problem.posterior, problem.data, budget)


@pytest.fixture(scope="module")
def whole(problem: Problem, run: Run) -> np.ndarray:
    """Log probabilities [b, n, k] of five draws, all rows at once."""
    return np.asarray(_predictor(problem, 1e12)(run.draws[0, :5], problem.split.x_test).log_probs)


@pytest.mark.parametrize("rows", [0, 1, 4, 5])
def test_pieces_of_rows_change_nothing(
    problem: Problem, run: Run, whole: np.ndarray, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six rows in pieces of one (also below the budget of one row), and in two halves where four or five would fit."""
    predictor, seen = _predictor(problem, 1e12), []
    predictor._budget = rows * predictor._row_bytes
    share = Placement.share
    monkeypatch.setattr(Placement, "share", lambda self, tree: seen.append(len(tree)) or share(self, tree))
    found = np.asarray(predictor(run.draws[0, :5], problem.split.x_test).log_probs)
    assert seen == ([3] * 2 if rows > 1 else [1] * TEST), "every piece has one shape, so that it compiles once"
    np.testing.assert_allclose(found, whole, rtol=0, atol=1e-6)


@pytest.mark.parametrize("settings", [{"devices": 1}, {"devices": 3}, {"batched": True}])
def test_devices_change_nothing(
    problem: Problem, run: Run, whole: np.ndarray, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    devices = jax.devices()[: settings.get("devices", 1)]
    monkeypatch.setattr(module, "Placement", partial(Placement, devices=devices, batched=settings.get("batched")))
    found = np.asarray(_predictor(problem, 1e12)(run.draws[0, :5], problem.split.x_test).log_probs)
    if "batched" in settings:
        np.testing.assert_allclose(found, whole, rtol=0, atol=1e-6)
    else:
        np.testing.assert_array_equal(found, whole)


@pytest.mark.parametrize("limit", ["budget", "core"])
@pytest.mark.parametrize("devices", [1, 4])
def test_rows_are_cut_alike_on_any_machine(
    problem: Problem, run: Run, monkeypatch: pytest.MonkeyPatch, devices: int, limit: str
) -> None:
    """In pieces that fit the budget and a core's caches; the rounding follows the pieces."""
    monkeypatch.setattr(module, "Placement", partial(Placement, devices=jax.devices()[:devices]))
    predictor, seen = _predictor(problem, 1e12), []
    if limit == "budget":
        predictor._budget = 2 * predictor._row_bytes
    else:
        monkeypatch.setattr(module, "PIECE_BYTES", 2 * predictor._row_bytes)
    share = Placement.share
    monkeypatch.setattr(Placement, "share", lambda self, tree: seen.append(len(tree)) or share(self, tree))
    predictor(run.draws[0, :5], problem.split.x_test)
    assert seen == [2, 2, 2]


def test_rows_that_the_posterior_is_not_for_are_refused(problem: Problem, run: Run) -> None:
    predictor, x = _predictor(problem, 1e12), problem.split.x_test
    for rows in (x.reshape(TEST, -1), np.moveaxis(x, 3, 1), x[0], x[:0]):
        with pytest.raises(DataError, match=r"this posterior needs .*shape \[4, 4, 3\]"):
            predictor(run.draws[0, :5], rows)
    with pytest.raises(DataError, match=r"rows of uint8: .*scaled like"):
        predictor(run.draws[0, :5], run.images.x[run.rows])


def test_training_rows_are_neither_scaled_nor_placed(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where only predictions are asked for; the gradients at the draws need these rows."""
    monkeypatch.setattr(SplitData, "_others", None)
    (summary,) = predicted_sets(run, tmp_path, "rotated30")
    expected = run.probabilities(apply_shift(parse_shift("rotated30"), run.images.x[run.rows], evaluation_sets.SEED))
    np.testing.assert_allclose(summary.probabilities, expected, **CLOSE)


def test_a_label_without_a_class_is_refused(run: Run, tmp_path: Path) -> None:
    """`save` would refuse it too; this file has been changed since."""
    with np.load(run.dataset) as arrays:
        np.savez(tmp_path / "prepared.npz", **{**arrays, "classes": arrays["classes"][:2]})
    split = tmp_path / "split.npz"
    rows = np.arange(TRAIN)
    save_split(split, load(tmp_path / "prepared.npz"), Split(rows, rows[:0], run.rows))
    with pytest.raises(ValueError, match="labels go from 0 to 2, but must be 0 to 1"):
        load_problem(tmp_path / "prepared.npz", split, POSTERIOR)


def test_all_draws_at_once_share_the_budget(problem: Problem, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where chains are batched (GPU), a piece has as many rows as all draws together can afford."""
    monkeypatch.setattr(module, "Placement", partial(Placement, devices=jax.devices()[:1], batched=True))
    predictor, seen = _predictor(problem, 1e12), []
    predictor._budget = 12 * predictor._row_bytes
    share = Placement.share
    monkeypatch.setattr(Placement, "share", lambda self, tree: seen.append(len(tree)) or share(self, tree))
    predictor(run.draws[0, :4], problem.split.x_test)
    assert seen == [3, 3]


def test_a_second_number_of_draws_is_predicted_too(problem: Problem, run: Run, whole: np.ndarray) -> None:
    predictor = _predictor(problem, 1e12)
    predictor(run.draws[0, :5], problem.split.x_test)
    few = np.asarray(predictor(run.draws[0, :2], problem.split.x_test).log_probs)
    np.testing.assert_array_equal(few, whole[:2])
    assert few.shape == (2, TEST, 3)
    assert problem.split.x_test.shape == (TEST, *SHAPE)
