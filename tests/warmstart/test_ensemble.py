"""Deep ensembles: early stopping, the bits of a member, and what goes wrong in words."""

from functools import partial
from typing import NamedTuple

import jax
import numpy as np
import pytest
from jax import numpy as jnp

from bnn_atlas.config.parts.posterior import (
    CategoricalLikelihood,
    GaussianLikelihood,
    LearnedNoiseLikelihood,
    LikelihoodConfig,
    MLPConfig,
)
from bnn_atlas.config.parts.priors import StandardNormalPrior
from bnn_atlas.config.parts.starts import WarmStartConfig
from bnn_atlas.inference.problem import within_budget
from bnn_atlas.placement import Placement
from bnn_atlas.posterior.density import Posterior, build_posterior, posterior_data
from bnn_atlas.warmstart import ensemble
from bnn_atlas.warmstart.ensemble import Member, Rows, TrainingError, train_ensemble

pytestmark = pytest.mark.bits

FEATURES = 2
FULL = WarmStartConfig(learning_rate=0.1, weight_decay=0.0, max_epochs=80, batch_size=None, patience=None)
# The noise in the rows makes the validation loss turn around.
STOPPING = WarmStartConfig(learning_rate=0.05, weight_decay=0.0, max_epochs=60, batch_size=10, patience=3)


def posterior_of(likelihood: LikelihoodConfig, classes: int = 0) -> Posterior:
    model = MLPConfig(hidden=(6,), activation="tanh")
    return build_posterior(
        model, likelihood, StandardNormalPrior(), temperature=1.0, shape=(FEATURES,), classes=classes
    )[0]


GAUSSIAN = posterior_of(GaussianLikelihood())
LINEAR = build_posterior(
    MLPConfig(hidden=()), GaussianLikelihood(), StandardNormalPrior(), temperature=1.0, shape=(FEATURES,)
)[0]


def function_rows(n: int, validation: int, noise: float, seed: int = 0) -> Rows:
    """y = sin(2 x_0) + x_1 / 2 with noise."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, (n + validation, FEATURES))
    y = np.sin(2 * x[:, 0]) + x[:, 1] / 2 + noise * rng.normal(size=len(x))
    x, y = x.astype(np.float32), y.astype(np.float32)
    return Rows(*map(jnp.asarray, (x[:n], y[:n], x[n:], y[n:])))


ROWS = function_rows(33, 12, noise=0.7)


def mean_loss(posterior: Posterior, theta: np.ndarray, x: jax.Array, y: jax.Array) -> float:
    """Mean negative log-likelihood per row of N(f(x), 1), in double precision from the network's outputs."""
    outputs = np.asarray(
        posterior.network.apply(theta[: posterior.network.layout.size], posterior.network.arrange(x))[:, : len(x)],
        np.float64,
    )
    return float(np.mean(0.5 * (np.asarray(y) - outputs[0]) ** 2 + 0.5 * np.log(2 * np.pi)))


def assert_same_bits(one: Member, other: Member) -> None:
    for a, b in zip(one, other, strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def member(result: Member, place: int) -> Member:
    return Member(*(array[place] for array in result))


class Trainings(NamedTuple):
    full: Member
    stopping: Member


@pytest.fixture(scope="module")
def trained() -> Trainings:
    """Members 0 to 4 on four devices: full batches for all epochs, and mini-batches with early stopping."""
    members = np.arange(5)
    return Trainings(*(train_ensemble(GAUSSIAN, config, ROWS, members, 5) for config in (FULL, STOPPING)))


@pytest.mark.slow
def test_training_learns_a_function_and_leaves_the_noise_level_at_its_start() -> None:
    posterior = posterior_of(LearnedNoiseLikelihood())
    rows = function_rows(60, 20, noise=0.05)
    config = WarmStartConfig(learning_rate=0.03, weight_decay=0.0, max_epochs=100, batch_size=12, patience=None)
    result = train_ensemble(posterior, config, rows, np.arange(2), 0)
    assert result.parameters.shape == (2, posterior.layout.size)
    assert np.all(result.parameters[:, posterior.layout.offset("log_sigma")] == 0)
    assert np.all(result.train_loss[:, -1] < result.train_loss[:, 0])
    predictor = np.float32(np.mean(rows.y))
    floor = 0.5 * np.log(2 * np.pi)
    error_of_the_mean = 2 * (np.mean(0.5 * (np.asarray(rows.y_validation) - predictor) ** 2))
    for theta in result.parameters:
        error = 2 * (mean_loss(posterior, theta, rows.x_validation, rows.y_validation) - floor)
        assert error < 0.25 * error_of_the_mean


@pytest.mark.parametrize("kind", Trainings._fields)
def test_parameters_are_those_of_the_best_epoch(trained: Trainings, kind: str) -> None:
    result: Member = getattr(trained, kind)
    for i, theta in enumerate(result.parameters):
        losses = result.validation_loss[i]
        assert result.best_epoch[i] == np.nanargmin(losses)
        found = mean_loss(GAUSSIAN, theta, ROWS.x_validation, ROWS.y_validation)
        assert found == pytest.approx(np.nanmin(losses), rel=1e-5)


def test_patience_is_honoured(trained: Trainings) -> None:
    epochs = STOPPING.max_epochs
    ran = np.sum(~np.isnan(trained.stopping.validation_loss), axis=1)
    assert np.all(ran == trained.stopping.best_epoch + 1 + STOPPING.patience), "the rows were to stop every member"
    assert np.all(ran < epochs)
    for losses, count in zip(trained.stopping.validation_loss, ran, strict=True):
        since_best = np.arange(count) - np.array([np.argmin(losses[: e + 1]) for e in range(count)])
        assert since_best.max() == since_best[-1] == STOPPING.patience
        assert np.isnan(losses[count:]).all()
    assert len(np.unique(ran)) > 1, "members stop each at its own epoch"


def test_without_patience_all_epochs_run(trained: Trainings) -> None:
    assert np.isfinite(trained.full.validation_loss).all()
    assert np.isfinite(trained.full.train_loss).all()
    assert trained.full.best_epoch.max() < FULL.max_epochs - 1, "the best is not the last on these rows"


def test_members_differ(trained: Trainings) -> None:
    for result in trained:
        assert len(np.unique(result.parameters[:, 0])) == 5


@pytest.mark.parametrize("kind", Trainings._fields)
@pytest.mark.parametrize(("devices", "members"), [(1, [3]), (2, [4, 0, 2])])
def test_member_has_the_same_bits_in_any_company_on_any_number_of_devices(
    trained: Trainings, kind: str, devices: int, members: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {"full": FULL, "stopping": STOPPING}[kind]
    monkeypatch.setattr(ensemble, "Placement", partial(Placement, devices=jax.devices()[:devices]))
    result = train_ensemble(GAUSSIAN, config, ROWS, np.array(members), 5)
    on_four: Member = getattr(trained, kind)
    for place, number in enumerate(members):
        assert_same_bits(member(result, place), member(on_four, number))


def test_without_validation_rows_the_last_epoch_counts() -> None:
    rows = ROWS._replace(x_validation=ROWS.x_validation[:0], y_validation=ROWS.y_validation[:0])
    config = FULL.model_copy(update={"learning_rate": 0.005, "max_epochs": 15, "patience": 2})
    result = train_ensemble(GAUSSIAN, config, rows, np.array([0]), 5)
    assert result.best_epoch.tolist() == [14]
    assert np.isnan(result.validation_loss).all(), "there is no validation loss"
    before, last = result.train_loss[0, -2:]
    found = mean_loss(GAUSSIAN, result.parameters[0], rows.x, rows.y)
    assert last - 2 * (before - last) < found < last, "parameters are those after the last update"


def test_seed_changes_every_member(trained: Trainings) -> None:
    other = train_ensemble(GAUSSIAN, FULL, ROWS, np.arange(5), 6)
    assert not np.any(np.all(other.parameters == trained.full.parameters, axis=1))


@pytest.mark.parametrize("batch", [3, 5])
def test_every_epoch_and_member_leaves_other_rows_out(batch: int) -> None:
    """Predictions stay 0, so that an epoch's loss is half the mean of y^2 = 2^i over the rows i that it used."""
    n, epochs = 7, 12
    y = jnp.sqrt(2.0 ** jnp.arange(n))
    rows = Rows(jnp.zeros((n, FEATURES)), y, jnp.zeros((0, FEATURES)), y[:0])
    config = WarmStartConfig(learning_rate=1e-12, max_epochs=epochs, batch_size=batch, patience=None)
    losses = train_ensemble(LINEAR, config, rows, np.arange(3), 0).train_loss.astype(np.float64)
    used = n // batch * batch
    codes = (losses - 0.5 * np.log(2 * np.pi)) * 2 * used
    np.testing.assert_allclose(codes, np.round(codes), atol=1e-3)
    chosen = np.round(codes).astype(int)[..., None] >> np.arange(n) & 1
    assert np.all(chosen.sum(axis=-1) == used)
    assert np.all(chosen.sum(axis=1) > 0), "no member misses a row in all epochs"
    assert len(np.unique(chosen[0], axis=0)) > 3, "epochs differ"
    assert not np.array_equal(chosen[0], chosen[1]), "members differ"


@pytest.mark.parametrize("validation", [12, 0])
def test_divergence_names_the_member(validation: int) -> None:
    rows = ROWS._replace(x_validation=ROWS.x_validation[:validation], y_validation=ROWS.y_validation[:validation])
    config = FULL.model_copy(update={"learning_rate": 1e30, "max_epochs": 3})
    with pytest.raises(TrainingError, match=r"warm start 4 .*not finite; lower learning_rate"):
        train_ensemble(LINEAR, config, rows, np.array([4, 5]), 0)


def test_batch_larger_than_the_rows_is_refused() -> None:
    config = FULL.model_copy(update={"batch_size": 34})
    with pytest.raises(ValueError, match=r"^batch_size \(34\) exceeds the 33 training rows"):
        train_ensemble(GAUSSIAN, config, ROWS, np.array([0]), 0)


def test_classifier_learns_its_classes() -> None:
    posterior = posterior_of(CategoricalLikelihood(), classes=3)
    x = np.random.default_rng(1).normal(size=(60, FEATURES)).astype(np.float32)
    y = np.int32(np.digitize(x[:, 0], [-0.5, 0.5]))
    rows = Rows(*map(jnp.asarray, (x[:40], y[:40], x[40:], y[40:])))
    config = WarmStartConfig(learning_rate=0.05, weight_decay=0.0, max_epochs=60, batch_size=20, patience=None)
    result = train_ensemble(posterior, config, rows, np.array([0]), 0)
    log_probs = posterior.predict(jnp.asarray(result.parameters), rows.x_validation).log_probs[0]
    assert np.mean(np.argmax(log_probs, axis=1) == y[40:]) >= 0.85


def bounded(likelihood: LikelihoodConfig, rows: Rows, budget: float, hidden: int = 6) -> Posterior:
    """A posterior of the training rows that keeps to a budget."""
    posterior, prior = build_posterior(
        MLPConfig(hidden=(hidden,), activation="tanh"), likelihood, StandardNormalPrior(), temperature=1.0,
        shape=(FEATURES,),
    )  # fmt: skip
    return within_budget(posterior, posterior_data(np.asarray(rows.x), np.asarray(rows.y), prior), budget)


def temporaries(posterior: Posterior, config: WarmStartConfig, rows: Rows) -> int:
    """Bytes that the compiled training of a member takes in addition to arguments and results."""
    shared = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), (rows, jnp.int32(0)))
    train = jax.jit(partial(ensemble._train_member, posterior, config, config.batch_size or len(rows.x), jnp.float32))
    compiled = train.lower(shared, jax.ShapeDtypeStruct((), jnp.int32)).compile()
    return compiled.memory_analysis().temp_size_in_bytes


@pytest.mark.parametrize("batch", [100, None])
def test_training_keeps_to_the_memory_budget(batch: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loss of all validation rows does, and so does the gradient of all training rows where they are one batch."""
    rows = function_rows(600 if batch else 6000, 9000, noise=0.7)
    config = FULL.model_copy(update={"batch_size": batch, "max_epochs": 3})
    budget = 2e6
    monkeypatch.setattr("bnn_atlas.models.networks.PIECE_BYTES", 2**40)  # the network has no pieces of its own
    assert temporaries(bounded(GaussianLikelihood(), rows, 1e9, hidden=256), config, rows) > 3 * budget
    assert temporaries(bounded(GaussianLikelihood(), rows, budget, hidden=256), config, rows) < 1.5 * budget


@pytest.mark.parametrize("config", [FULL, STOPPING], ids=["full", "mini-batches"])
def test_training_in_pieces_is_the_same_training(config: WarmStartConfig) -> None:
    """5 rows at a time: batches of 33 and 10 rows and 12 validation rows are all cut."""
    few = config.model_copy(update={"max_epochs": 6})
    whole = bounded(GaussianLikelihood(), ROWS, 1e9)
    posterior = whole._replace(most_rows=5)
    expected, found = (train_ensemble(p, few, ROWS, np.arange(2), 5) for p in (whole, posterior))
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-5)
